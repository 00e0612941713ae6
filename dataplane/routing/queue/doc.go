// Package queue holds requests back while all ranks that could take them are full, and decides
// which one goes first when a rank has room again.
//
// An engine orders only the requests that it has, and a request cannot be called back from the
// wrong engine. So requests wait here, where the order is chosen for the whole cluster:
//
//  1. One dispatch in four goes to the request that has waited longest, if longer than MaxAge:
//     no request starves.
//  2. Higher priorities go first, as SGLang defines its field: a number, and a request without
//     one comes last. Within a priority, patient requests, which may wait for longer than
//     Config.Timeout, come after the others.
//  3. Clients take turns by deficit: each has a credit in tokens, pays for the tokens that its
//     requests compute, and waits without credit until no other waiting client has any. Then
//     all get a quantum. (Deficit longest prefix match, "Locality-aware Fair Scheduling in LLM
//     Serving", 2025.)
//  4. Among clients with credit, depth first: the request that shares the longest beginning
//     with the recent requests of the rank with room; of equals one in a branch that no other
//     rank is in; then the first one. A branch is so finished while its pages are in the prefix
//     cache.
//
// A request whose turn would come after its deadline is refused at once: the requests before it
// and the rate at which they leave tell when. The rate counts once as many have left as the ranks
// hold; before that no request is refused by it. A request whose deadline passes leaves.
//
// Under lasting overload, oldest first would send each request shortly before its deadline, when
// its client is about to leave. So if requests are refused, and for Config.Timeout the queue has
// been longer than the number that leaves in a fifth of that time, then the last of equal requests
// goes first, only patient ones can be overdue, and the queue is kept that short: the oldest ones
// are refused. That ends when the queue is empty and has not been too long for Config.Timeout.
// (Adaptive LIFO with controlled delay, "Fail at Scale", 2015.)
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
