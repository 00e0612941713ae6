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
// Health holds facts about a worker's GPUs; choices read a part of it, the Verdict. Facts
// expire. They are doubted where they would stop a fleet that answers its probes: when they
// call most of it dead at one instant, or the last worker.
//
// A rank's load reports are compared with the router's own account: requests sent, first bytes
// seen, and the speeds of similar ranks. A field that contradicts it is set aside (SetAside) until
// it agrees again. A rank's KV events are set aside in the same way (EventCheck).
//
// # Trust
//
// Each rank's overlap is credited by worth × fresh (Trust.Credit): by how its last answers met the
// overlaps that were expected, and by the silence of its events. Trust.CheckEvery has the interval
// at which its content is compared with its events.
//
// The approximate tree stands beside the events of a new process until answers have met them: it
// knows the prompts that wrong ones leave out. Events that are wrong again and again are set aside
// for that rank (EventCheck), and the approximate tree has it alone; where the answers found more
// than the events told, or messages are lost for good, the tree stands beside the events. The size
// of the pool, as events told it, goes with them. The index follows the events meanwhile, learns
// the rank anew once, and its claims count again after many right answers or batches. Without
// reported cached tokens only batches are judged.
//
// A field of a load report is set aside when it contradicts the router's own account for 3 s: used
// KV tokens that no request there can hold, a KV pool that evicts with room or holds more than it
// has, and prefill speeds that the first bytes of long prompts contradict (speed_check.go).
//
// # Processes
//
// A process of SGLang is told from the next one by startup_time, random_seed and launch_command of
// /server_info, which a change of weights leaves alone, and by another shape of its cache. After
// /update_weights_from_disk it shows the path in /v1/models and accepts any name, so a worker
// keeps all names that its process had, and is known by the first. Prefill-only and decode-only
// workers are recognised from /server_info and get no plain requests. A server that is not SGLang
// is named by its other answers (engine.go) and routed without events and load.
//
// The monitor asks again which process it is when a connection of its probes ends, when it was not
// ready, and when its name leads to another address. That ends the connections of probes, and those
// of requests with their requests (moved.go).
//
// A worker that answers no probe but accepts connections may be alive. It leaves the choice, keeps
// its blocks in the index, and after --hang-after its waiting requests go to other workers. A
// request that fits no other worker stays and is offered again after each failed probe; it ends
// with an answer, or with 504 at --first-byte-timeout.
//
// # Numbers of a rank
//
//   - Rank.DPRank: its data-parallel rank within the worker, from 0
//   - Rank.IDHash: a hash of its ID, equal in all routers
//   - Rank.Number: itself in this process, in every table but the radix index
//   - Rank.IndexIDs: its KV groups in the radix index
//
// Worker.HostNumber numbers the host in its URL, Worker.NodeNumber its node in the cluster.
//
// # Concurrency
//
// Every method may be called from any goroutine. Registry.Run owns one monitor goroutine for
// each worker; Add and Remove start and stop them. The request path reads an immutable Snapshot
// by one atomic load and touches only atomics of its ranks. A monitor has up to three more
// goroutines. One polls load and adapters where a worker does not publish them, because probes must
// not wait for a busy scheduler; it ends with the life of the process. One reads the probes'
// connection, ends with it, and raises a suspicion. One follows the name of a worker that is not
// given by its address, and ends with the monitor.
//
// A worker drains while there is any reason for it (DrainFor). Its spec and the registry's
// settings (Update, Configure) change while it serves. Detach takes a worker out at once and
// leaves it to the caller to wait until its cache is forgotten; after an Add meanwhile,
// observers hear the end of the first life before the beginning of the second.
//
// Load.mu, Trust.mu and EventCheck.mu are held for some 100 ns by dispatches, answers, reports and
// batches; choices read without a lock. Breaker.mu is held by faults, by successes within 64
// answers of one, and by requests at a breaker that is not closed; refusals.mu, for some 20 ns, by
// answers that are errors and by the success after them; Registry.facts while facts about GPUs are
// taken in, some µs after a death and less otherwise. Registry.mu guards the set of workers and is
// never held across I/O; of callbacks, only Configure's runs under it. unanswered.mu guards the
// requests without an answer; a Canceler's lock may be taken under it, and Load.mu under
// Registry.comparing, which compares workers with each other. The fleet's manager takes
// Registry.comparing under its own lock. ExtraKeys.mu is held by dispatches, ends and stores of
// prompts with an extra_key, numbers.mu while ranks get their numbers. Keys.mu lets one monitor
// look at the file of keys, also while it is read.
//
// # Ownership
//
// Snapshots, Info and the slices in them are immutable once published.
//
// # Errors
//
// ErrUnknown, ErrDuplicate, ErrBadURL and ErrClosed come from Add and Remove, ErrNotWorker and
// ErrKeyRefused from Identify, ErrKeys and ErrNetwork from the settings of the operator.
package worker
