// Package policy chooses a rank: candidates in, a choice and its reason out.
//
// Policies are pure. They hold no locks, read no clock and do no I/O, and the randomness that
// they need comes with the request. The same input gives the same choice, so a decision can be
// replayed and explained.
//
// [PickPair] chooses two ranks: a prefill and a decode rank, with the link between them.
//
// A router fills in a [Candidate] with [Backlog] and [Speed]: models with state that are as
// pure, since time comes in with each call.
//
// To add a policy: a type that implements [Policy], a line in makers, its [Needs], and a test
// of its rule in rules_test.go. Baselines that only the simulation needs are in bench/policies.
//
// # Concurrency
//
// Policies keep no state: Pick, Needs, [Scores] and [KV.Costs] may be called from any
// goroutine. A Backlog or Speed belongs to one goroutine at a time.
//
// # Ownership
//
// Pick reads the candidates and keeps no part of them.
//
// # Errors
//
// New returns ErrUnknown for a policy that does not exist.
package policy
