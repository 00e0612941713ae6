// Package quarantine keeps requests that end engines from ending more than two of them.
//
// A request that was in flight when an engine died is a suspect, named by a digest of its body. Suspects are
// tried again one at a time on each worker: a suspect's turn ends with the first byte of its answer, or after
// a while if others wait. The suspect whose engine dies in its turn is refused for a while, also when a client
// sends it anew. A suspect that is answered is cleared.
//
// Of the requests in flight at a death, those that the engine had been computing for long are not likely to
// be its cause: they need no turn, so that the death of an engine for other reasons holds up few requests. A
// second death with any request in flight has it refused all the same, unless that death is another one's.
//
// # Concurrency
//
// All methods of [Ward] may be called from any goroutine. Active is one atomic load: while no engine has died
// the request path does nothing else here.
package quarantine
