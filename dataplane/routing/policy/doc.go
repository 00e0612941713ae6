// Package policy chooses a worker: candidates in, a choice and its reasons
// out.
//
// Policies are pure. They hold no locks, read no clock and do no I/O; the
// randomness they need comes in with the request. The same inputs give the
// same choice, so a decision can be replayed and explained.
//
// [PickPair] chooses two: a prefill and a decode worker, with the link between them.
//
// What a router must follow to fill in a [Candidate], it follows with [Backlog] and [Speed]: models with state, but as
// pure, since time comes in with each call.
//
// # Concurrency
//
// Pick, Needs, [Scores] and [KV.Costs] may be called from any goroutine; a policy keeps no state. A Backlog or Speed belongs to one
// goroutine at a time.
//
// # Ownership
//
// Pick reads the candidates and keeps nothing of them.
package policy
