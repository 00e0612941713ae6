// Package replica measures the cost of several routers that know each other's requests: messages,
// bytes and CPU, by numbers of routers, workers and requests.
//
// Routers are real ones up to the choice (packages routing, worker and peers), in this process,
// over a NATS in this process and its loopback. Their workers only describe themselves;
// requests are chosen for, counted as load for half a second, and never sent. The cost of the
// same requests with sharing off is measured beside and subtracted.
//
// # Concurrency
//
// Run may be called once at a time: it measures the CPU of the whole process.
//
// # Ownership
//
// Run keeps no argument.
package replica
