// Package chaos drives a cluster of real `warmpath` processes, with simulated workers in processes
// of their own, through mixed traffic and a seeded schedule of faults of everything.
//
// # Model
//
// Two routers of one cluster, one of them with TLS, a third that is the cluster's NATS, a sidecar,
// three whole workers and two pairs. Storms and calms alternate. In a storm faults begin and end as
// the schedule says, which depends on the seed and the number of the storm alone; of each kind of
// target at most one is away at a time. In a calm all is healed, and the invariants are checked:
//
//   - each request ended with its own whole answer, with an error that its client sees, or with a
//     broken connection, and the last two only beside a fault that explains it
//   - no answer came from nobody, and no request was computed twice but beside a fault that
//     explains it: workers keep a journal of the numbers in bodies
//   - neither a wrong key nor a malformed request reached a worker, and a good key and a good
//     certificate were never refused
//   - no load is left, neither in the routers' books nor at workers, all workers are used, and the
//     client with one place has it
//   - goroutines, descriptors, memory and the hit rate are back where they were
//   - no process has ended by itself, panicked or raced
//
// # Concurrency
//
// [Run] starts all goroutines and processes and ends them before it returns.
//
// # Errors
//
// [ErrViolated] if an invariant did not hold.
package chaos
