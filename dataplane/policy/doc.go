// Package policy chooses a worker: candidates in, a choice and its reasons
// out.
//
// Policies are pure. They hold no locks, read no clock and do no I/O; the
// randomness they need comes in with the request. The same inputs give the
// same choice, so a decision can be replayed and explained.
//
// # Concurrency
//
// Pick may be called from any goroutine; a policy keeps no state.
//
// # Ownership
//
// Pick reads the candidates and keeps nothing of them.
package policy
