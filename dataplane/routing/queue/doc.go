// Package queue holds requests back while every worker that could take them is
// full, and says which of them goes first when one has room again.
//
// An engine orders only what it has been sent, and a request that waits in the
// wrong engine cannot be called back. So, once all ranks are full, the rest
// waits here, where the order can be chosen for the whole cluster:
//
//  1. One dispatch in four goes to the request that waits longest, if that is
//     longer than MaxAge: nobody starves, whatever else is asked.
//  2. Higher priorities first, as SGLang means its field: a number, and a
//     request without one comes last.
//  3. Clients take turns by deficit: each has a credit in tokens, pays for what
//     its requests compute, and waits when it has none left until all others
//     that wait have none either. Then all get a quantum. (Deficit longest
//     prefix match, "Locality-aware Fair Scheduling in LLM Serving", 2025.)
//  4. Among the clients with credit, depth first: the request that shares the
//     longest beginning with what the rank with room was given last, and of
//     equals one whose branch no other rank is in; then the one that came
//     first. A branch is so finished while its pages are in the cache, and not
//     left and come back to.
//
// At its bound the queue refuses: the newcomer, or in its stead the newest
// request of the lowest priority, of the client that has most of them here,
// where that is lower than the newcomer's or the client has more here than the
// newcomer's would have.
//
// Order makes these decisions and nothing else: it has no clock, no lock and no
// chance, so that the same calls give the same order. Gate makes requests wait.
//
// # Concurrency
//
// Order belongs to one goroutine at a time. Gate may be used from any; its lock
// is held for as long as an Order takes to decide, which is linear in the
// waiting requests (BenchmarkPop), and while it asks for lanes. Nothing is sent
// or called back under it but cfg.Lanes. While no rank is full, Gate costs one atomic load.
//
// # Ownership
//
// A Waiter belongs to the Gate from Enter until Enter returns. Its Branch may be
// kept for longer, as what a rank was given: it must not change.
//
// # Errors
//
// Enter returns a *RefusedError, ErrGone or ErrClosed.
package queue
