// Package policies simulates routing policies on a trace: workers and routers in simulated
// time, every policy side by side, so that an operator can compare them on his own traffic
// before a change.
//
// # The simulation
//
// Workers have a prefill rate, chunked prefill, continuous batching with steps that grow with
// batch and context, a KV pool with a radix cache of pages (free leaves are evicted least
// recently used first, running requests pin their pages), a queue where pool or batch is full,
// and optionally host memory as a second tier and a KV tier of each node, from which others
// pull (node_tier.go). See [Service] for the costs. Not simulated: retraction (a request enters
// when its whole answer has room), speculative decoding.
//
// Routers are any number of replicas. Each knows its own dispatches at once, the caches by
// events, late and perhaps not all of them, and the load by workers' reports; "approx" has a
// tree of its own dispatches instead of events. Package policy and the baselines (baselines.go)
// choose, and [Greedy], which knows all state. Greedy is a baseline and not an optimum: it
// looks at one request at a time. With Config.Queues kv is also simulated behind a queue that
// holds requests back while all workers are full (queue.go): the order is package queue's own.
//
// # Users
//
// [SimulateUsers] is a closed loop: users play recorded sessions of agents (package trace), and a
// turn comes its think time after the answer before it, so that a slow cluster gets fewer requests
// and not a longer queue. [FindUsers] searches for the number of users that the workers carry at
// p95 of TTFT and ITL. ITL is the time between one token and the next, prefill batches that come
// between included; TPOT is its mean over a request.
//
// # Bounds
//
// Greedy thrashes as others do where memory is short. Better yardsticks: the best policy in
// hindsight ([Report.Best]), and the hits of a cache without an end.
//
// # Cells
//
// A [Grid] plays every policy in many scenes ([Material.Scenes]): kinds of traffic, pools, tiers,
// pairs, speeds and routers, each at shares of the load at which the best policy collapses. It is
// what changes of kv are judged by (bench/cmd, "cells"); its seed draws the sizes, so that a
// change can be judged on scenes that nobody has looked at.
//
// # Speed
//
// The trace is known beforehand, so all prompts and answers are laid into one tree of pages
// first (plan.go). A cache is then a number of pages for each node of it, a look-up is a walk
// over the few nodes of a request, and decode steps between two events are one multiplication.
// An hour of 8 workers takes about 0.1 s of one core.
//
// # Determinism
//
// Time is a whole number of picoseconds and all chance comes from the seed: the same trace and
// configuration give the same result. (Costs are floating point; a processor that fuses
// multiplications with additions may break a tie otherwise, so results of amd64 and arm64 can
// differ in the third digit.) naive_test.go has the obvious simulation, token by token, which
// agrees with this one in every instant.
//
// # Concurrency
//
// [Simulate] and the others may be called from any goroutine; one call runs on the caller's
// alone.
//
// # Ownership
//
// Traces are read and not kept.
//
// # Errors
//
// [ErrConfig] is an impossible simulation; policy.ErrUnknown a policy that does not exist.
package policies
