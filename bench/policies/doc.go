// Package policies simulates routing policies on a trace: workers and routers in simulated time, every policy side by side,
// so that an operator can ask what each would give on his own traffic before he changes anything.
//
// # What is simulated
//
// Workers. Prefill rate, chunked prefill, continuous batching whose steps grow with batch and context, a KV pool with a
// radix cache of pages, of which leaves that nobody uses are evicted least recently used first, running requests that pin
// their pages, a queue where pool or batch is full, and, if asked for, host memory as a second tier and a KV tier of each node, from
// which others pull (nodeTier.go). See [Service] for the
// costs. Not simulated: retraction (a request enters when its whole answer has room), speculative decoding, failures.
//
// Routers. Any number of replicas. Each knows its own dispatches at once, what events tell of the caches, late and perhaps
// not all of them, and what workers report of their load now and then; "approx" has a tree of its own dispatches instead of
// events. Choices are made by the policies of package policy themselves, and by [Greedy], which knows everything.
// Greedy is a baseline and not an optimum: it looks at one request at a time. With Config.Queues kv is also simulated behind a
// queue that holds requests back while all workers are full (queue.go): the order is package queue's own.
//
// # How it is fast
//
// The trace is known beforehand, so all prompts and answers are laid into one tree of pages first (plan.go). A cache is then
// a number of pages for each node of it, a look-up is a walk over the few nodes of a request, and decode steps between
// two events are one multiplication. An hour of 8 workers takes about 0.1 s of one core.
//
// # Determinism
//
// Time is a whole number of picoseconds and all chance comes from the seed: the same trace and configuration give the same
// result. (Costs are floating point; a processor that fuses multiplications with additions may break a tie otherwise, so results
// of amd64 and arm64 can differ in the third digit.) naive_test.go has the obvious simulation, token by token, that must agree with
// this one in every instant.
//
// # Concurrency
//
// [Simulate] and the others may be called from any goroutine; one call runs on the caller's alone.
//
// # Ownership
//
// Traces are read and not kept.
//
// # Errors
//
// [ErrConfig] is what cannot be simulated; policy.ErrUnknown a policy that
// does not exist.
package policies
