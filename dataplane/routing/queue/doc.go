// Package queue holds requests back while all ranks that could take them are full, and decides
// which one goes first when a rank has room again.
//
// An engine orders only the requests that it has, and a request cannot be called back from the
// wrong engine. So requests wait here, where the order is chosen for the whole cluster:
//
//  1. One dispatch in four goes to the request that has waited longest, if longer than MaxAge:
//     no request starves.
//  2. Higher priorities go first, as SGLang defines its field: a number, and a request without
//     one comes last.
//  3. Clients take turns by deficit: each has a credit in tokens, pays for the tokens that its
//     requests compute, and waits without credit until no other waiting client has any. Then
//     all get a quantum. (Deficit longest prefix match, "Locality-aware Fair Scheduling in LLM
//     Serving", 2025.)
//  4. Among clients with credit, depth first: the request that shares the longest beginning
//     with the recent requests of the rank with room; of equals one in a branch that no other
//     rank is in; then the first one. A branch is so finished while its pages are in the prefix
//     cache.
//
// At its bound the queue refuses the new request, or displaces the newest request of the lowest
// priority, of the client with most of them, where that priority is lower than the new one's or
// the client has more requests here than the new one's would have.
//
// Order makes these decisions and has no clock, lock or randomness: the same calls give the
// same order. Two B-trees keep it, one by priority, branch and arrival, one by arrival alone.
// Gate makes requests wait.
//
// # Concurrency
//
// An Order belongs to one goroutine at a time. A Gate may be used from any. Its lock is held
// while an Order decides, which is linear in the waiting requests of the highest priority
// (BenchmarkPop), and while Config.Ranks runs. While no rank is full, a Gate costs one atomic
// load.
//
// # Ownership
//
// A Waiter belongs to the Gate from Enter until Enter returns. Its Branch is kept longer, as a
// recent request of a rank, and must not change.
//
// # Errors
//
// Enter returns a *RefusedError, ErrGone or ErrClosed.
package queue
