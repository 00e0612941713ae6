// Package link measures the throughput and latency from a node to the others, infers the path, and
// explains slow paths.
//
// The [Prober] of each node offers 64 MiB of memory to other nodes by the cluster's messages. It
// measures its link to every other node: at its start, when a node joins, after a failure, and
// then every few minutes, one node at a time. UCX does not tell the transport that it takes, so
// [InferPath] derives it. Where the kernel does not let one process read the other's memory, it
// is not CMA. Over CMA and shared memory the posting call copies; over RDMA and TCP it returns at
// once. A rate beyond one TCP connection is RDMA. [Diagnose] names the obstacles to a faster
// path: different users or PID namespaces, UCX's environment, devices that are not named. The
// results are cluster.Link records.
//
// Reads over TCP are measured up to 1 MiB only. UCX makes the process that is read take part, and
// aborts it when its reader dies during a stall (UCX 1.23, tried with SIGSTOP). Writes do not
// abort, and are twice as fast.
//
// # Concurrency
//
// Prober.Run is one goroutine and does all measurements. The cluster's goroutine answers requests
// for memory. Links may be called from any goroutine and waits for neither. Prober.mu guards the
// results, offeredMemory.mu the offered memory; they are never held together, and Prober.mu never
// during a wait.
//
// # Ownership
//
// Links returns a copy. Offered memory is freed a minute after the last request; agents live from
// their first use to the end of Run.
package link
