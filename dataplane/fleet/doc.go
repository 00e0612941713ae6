// Package fleet decides which workers a router uses and knows which nodes they run on.
//
// A Manager merges the workers that flags, operators and discovered sources name, and
// reconciles the registry (package worker) with them. A new worker is added at once; a worker
// that no source names any more is drained, then removed, so that no request is lost.
// ClusterSource and NodeSource make the records of a cluster and the sidecar in the same
// process sources like any other; the remaining kinds are in package discover.
//
// Where nodes name one worker, claims decide which of them is believed about it.
//
// Topology keeps the node of each worker and the measured links between nodes, for pairs and
// for pulls between KV tiers.
//
// # Concurrency
//
// Every exported method may be called from any goroutine. Manager.mu guards the sources and the
// workers; Registry.mu is taken under it. Nothing waits under Manager.mu: a goroutine forgets the
// cache of a removed worker, and Run waits for it.
package fleet
