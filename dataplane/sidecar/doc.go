// Package sidecar is the sidecar of one GPU node. It finds the SGLang workers of its machine, learns from the driver how their GPUs are, and
// tells the cluster's routers of both: at once what matters for a choice, gently what does not. Metrics and all facts are served over HTTP.
//
// Workers are named by the operator, or found: each new listening socket is asked once for GET /server_info. Workers are placed on
// GPUs by the processes that the driver lists for each, else by their environment and their own arguments. What cannot be seen (processes of
// other users, sockets of other network namespaces) is said in [Report], not guessed.
//
// # Concurrency
//
// [Node.Run] owns all goroutines and returns when they have ended: the owner of the driver ([nvml.Monitor]); the finder, which alone reads
// the tables of sockets and adds and removes workers; the monitors of the workers, by [worker.Registry]; the judge, which alone
// holds the health tracker, and makes one immutable [Report] of everything each second and with each change; the announcer, which alone
// calls the [Cluster], so that a slow one holds up nobody; and the HTTP server. Any goroutine may call [Node.Report]: it is one atomic load.
// The finder's lock guards the list of workers that it hands to the judge, and is held to copy it.
//
// # Ownership
//
// A published Report is never changed, nor is a record that was handed to the Cluster.
//
// # Errors
//
// [New] says which setting it cannot use. Nothing that the machine or the driver does ends Run: it is in the Report.
package sidecar
