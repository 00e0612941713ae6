// Package worker knows who exists, who is fit and how loaded: the registry of
// SGLang workers, their readiness probes and their in-flight work.
//
// A worker is one HTTP server; a rank is one data-parallel replica behind it
// with a KV cache of its own. Requests are sent to ranks, probes to workers.
//
// A worker does whole requests, or half of them: it computes prompts, or takes
// their KV and generates. What it does it says itself (Role). A prefill worker
// is ready when decode workers can meet it, which its bootstrap server knows.
// A Breaker keeps requests away from workers that fail them while their probes
// are fine.
//
// Health is what the facts about a worker's GPUs mean, told by whoever reads them. Choices read it as a Verdict, one word. Facts grow
// old, and are not believed where they would stop a fleet that answers: when most of it dies by them at one instant, or the last one.
//
// A rank's load reports are compared with what this router knows of it: requests sent, first bytes seen, and the speeds of equal ranks. A
// field that contradicts them is set aside (SetAside) until it agrees again; FindUsed and BelieveSpeed are the rules.
//
// # Concurrency
//
// A worker drains while anybody has a reason for it (DrainFor); what it is to others (Spec) and the registry's settings
// (Update, Configure) change while it serves. Detach takes it out at once and forgets its cache in the caller's own time; it may
// be added again meanwhile, and its observers hear the end of the first life before the beginning of the second.
//
// Every method may be called from any goroutine. Registry.Run owns one monitor
// goroutine per worker; Add and Remove start and stop them. The request path
// reads an immutable Snapshot through one atomic load and touches only atomics
// of the ranks in it. A monitor starts and stops a second goroutine, which asks
// for load and adapters where a worker does not publish them: probes must not
// wait for a busy scheduler. A third reads the probes' connection, and doubts the
// worker when it ends. Load.mu and Trust.mu are held for some 100 ns by
// dispatches, answers and reports; choices read both without a lock.
// Breaker.mu is held by faults, by good answers within 64 of one, and by requests at a breaker that is not closed.
// Refusals.mu is held by answers that are errors, and by the good one behind them.
// A registry's peers.mu is held while facts about GPUs are taken in, some µs for a new death and else less.
// Registry.mu guards the set of workers and is never held
// across I/O or a callback.
//
// # Ownership
//
// Snapshots, Info and the slices in them are immutable once published.
//
// # Errors
//
// ErrUnknown, ErrDuplicate and ErrBadURL come from Add and Remove.
package worker
