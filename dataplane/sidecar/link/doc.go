// Package link measures how fast a node's bytes reach the others, over which path, and why a path is slow.
//
// A [Prober] of each node offers 64 MiB of memory to whoever asks over the cluster's messages, and measures its way to every other node: at its start,
// when a node comes, when one failed, and then every few minutes, one node at a time. UCX does not tell which of its transports it took,
// so [Recognise] concludes it: where the kernel does not let one process read the other's memory it is not CMA, whatever the times look like; else, over CMA and shared memory the call that starts a transfer copies, over RDMA and TCP it returns at once; a rate that one TCP
// connection cannot reach is RDMA. [Judge] says what keeps a path from being faster, in words: different users or PID namespaces, UCX's
// environment, devices that are not named. The results are cluster.Link records.
//
// Reads over TCP are measured up to 1 MiB only. UCX lets the process that is read take part there, and ends it with an abort when its reader dies while it stalls
// (UCX 1.23, tried with SIGSTOP); writes have no such end, and are twice as fast.
//
// # Concurrency
//
// Prober.Run is one goroutine; all measurements are its own. The cluster's goroutine answers who asks for memory. Links may be called from any goroutine and
// waits for neither. Locks: Prober.mu guards the results, offer.mu the offered memory; they are never held together, and Prober.mu never while anything waits.
//
// # Ownership
//
// What Links returns is a copy. Offered memory is given back a minute after the last who asked for it; agents live from the first use to the end of Run.
package link
