// Package quarantine keeps requests that end engines from ending more than two of them.
//
// A request that was in flight when an engine died is a suspect, named by a digest of its body.
// Each worker tries one suspect at a time: a trial ends with the first byte of its answer, or after
// a while if other requests wait. A suspect whose engine dies during its trial is the culprit. It
// is refused for a while, also when a client sends it again. A suspect that is answered is cleared.
//
// A request that the engine had computed for long before the death is not a likely cause. It needs
// no trial, so that the death of an engine for other reasons holds up few requests. After a second
// death it gets a trial, and after a third it is refused, unless that death has another cause:
// rolling restarts of engines end long requests too.
//
// [Duplicates] limits the workers that get equal requests before any of them is answered.
//
// # Concurrency
//
// All methods of [Quarantine] and [Duplicates] may be called from any goroutine. Active is one
// atomic load: while no engine has died the request path calls nothing else of a Quarantine.
package quarantine
