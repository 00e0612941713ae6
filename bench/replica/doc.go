// Package replica measures what it costs that several routers choose as one: messages, bytes and CPU, by how many routers, workers and
// requests there are.
//
// Routers are real ones up to the choice (packages route, worker and dataplane/routing/peers), in this process, over a NATS in this process and
// its loopback. Their workers only describe themselves; requests are chosen for, counted as load for half a second, and never sent. What
// the same requests cost with sharing off is measured beside and taken off.
//
// # Concurrency
//
// Run may be called once at a time: it measures the CPU of the whole process.
//
// # Ownership
//
// Nothing is kept.
package replica
