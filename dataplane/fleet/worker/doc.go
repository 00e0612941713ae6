// Package worker is the registry of SGLang workers: their readiness, their load, and how far
// the router trusts the knowledge of their caches.
//
// A worker is one HTTP server; a rank is one data-parallel replica behind it, with a KV cache
// of its own. Requests go to ranks, probes to workers.
//
// A worker serves whole requests, or one half of them: prefill or decode (Role, by its own
// description). A prefill worker is ready when its bootstrap server lets decode workers in. A
// Breaker keeps requests away from workers that fail them while their probes succeed.
//
// Health holds facts about a worker's GPUs; choices read it as one word, the Verdict. Facts
// expire. They are doubted where they would stop a fleet that answers its probes: when they
// call most of it dead at one instant, or the last worker.
//
// A rank's load reports are compared with the router's own account: requests sent, first bytes
// seen, and the speeds of similar ranks. A field that contradicts it is set aside (SetAside)
// until it agrees again; FindUsed and BelieveSpeed are the rules. A rank's KV events are set aside
// in the same way (EventCheck).
//
// # Numbers of a rank
//
//   - Rank.DPRank: its data-parallel rank within the worker, from 0
//   - Rank.IDHash: a hash of its ID, equal in all routers
//   - Rank.IndexIDs: its KV groups in the radix index
//   - Rank.ApproxID: itself in the approximate index
//   - Rank.PredictionID: itself in the table of predictions
//   - Rank.SessionID: itself in the table of sessions' pages
//
// Worker.HostNumber numbers the host in its URL, Worker.NodeNumber its node in the cluster.
//
// # Concurrency
//
// Every method may be called from any goroutine. Registry.Run owns one monitor goroutine for
// each worker; Add and Remove start and stop them. The request path reads an immutable Snapshot
// by one atomic load and touches only atomics of its ranks. A monitor starts a second goroutine
// that polls load and adapters where a worker does not publish them, because probes must not
// wait for a busy scheduler. A third one reads the probes' connection and raises a suspicion
// when it ends.
//
// A worker drains while there is any reason for it (DrainFor). Its spec and the registry's
// settings (Update, Configure) change while it serves. Detach takes a worker out at once and
// leaves it to the caller to wait until its cache is forgotten; after an Add meanwhile,
// observers hear the end of the first life before the beginning of the second.
//
// Load.mu, Trust.mu and EventCheck.mu are held for some 100 ns by dispatches, answers, reports and
// batches; choices read without a lock. Breaker.mu is held by faults, by successes within 64
// answers of one, and by requests at a breaker that is not closed; Refusals.mu by answers that are
// errors and by the success after them; fleetHealth.mu while facts about GPUs are taken in, some
// µs after a death and less otherwise. Registry.mu guards the set of workers and is never held
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
