// Package quarantine keeps requests that end engines from ending more than two of them.
//
// A request that was in flight when an engine died is a suspect, named by a digest of its body. Suspects are
// tried again one at a time on each worker: a suspect's turn ends with the first byte of its answer, or after
// a while if others wait. The suspect whose engine dies in its turn is refused for a while, also when a client
// sends it anew. A suspect that is answered is cleared.
//
// Of the requests in flight at a death, those that the engine had been computing for long are not likely to
// be its cause: they need no turn, so that the death of an engine for other reasons holds up few requests. A
// second death under such a request has it tried once more in a turn, and a third one has it refused, unless
// that death is another one's: restarts of one engine after another end long requests too.
//
// # Concurrency
//
// All methods of [Ward] may be called from any goroutine. Active is one atomic load: while no engine has died
// the request path does nothing else here.
package quarantine
