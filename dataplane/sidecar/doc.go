// Package sidecar is the process beside the SGLang workers of one GPU node. It discovers the
// workers, watches the health of their GPUs, keeps the node's KV tier, measures links to other
// nodes, and writes all of it into the node's record in the cluster: news for routing at once,
// other numbers every two seconds. It serves metrics and its state over HTTP.
//
// Workers are named by the operator, or discovered: each new listening socket of this user, and of
// the users that the operator admits, is asked once for GET /server_info. The GPUs of a worker are
// those whose process lists name its processes, else those of its environment and arguments. Facts
// that this user cannot see (processes of other users, sockets of other network namespaces) are
// reported as unknown in [Report], not guessed.
//
//	file          job
//	sidecar.go    composition: New, Run
//	discovery.go  workers, by listening sockets (sockets.go), their users (users.go) and processes (process.go)
//	gpuassign.go  GPUs of workers
//	reporter.go   reports: driver facts, health (package health) and workers
//	record.go     the node's record in the cluster
//	tier.go       KV tier: store, peers, announcements, pull hints
//	links.go      link measurements (package link)
//	source.go     workers for a router in the same process
//	http.go       HTTP API, with metrics.go and dcgm.go
//
// # Concurrency
//
// [Sidecar.Run] owns all goroutines and returns when they have ended: the owner of the driver
// ([nvml.Monitor]); discovery, which alone adds and removes workers; the monitors of the workers,
// by [worker.Registry]; the reporter, which alone has the health tracker, publishes an immutable
// [Report] each second and with each change, and hands records to the [Cluster], which does not
// wait; the HTTP server; the KV tier and the link prober. Any goroutine may call [Sidecar.Report],
// which is one atomic load. discovery.mu guards the list of workers for the reporter, and
// records.mu the outcome of the last record.
//
// # Ownership
//
// A published Report never changes, nor does a record that the Cluster has taken.
//
// # Errors
//
// [New] names the setting that it cannot use. Failures of the machine and the driver do not end
// Run: the Report has them.
package sidecar
