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
//	file               content
//	manager.go         Manager: sources, workers that operators add; Start, Run
//	reconcile.go       sources to the registry; when a worker is held, drained, removed
//	drain.go           drain and cordon
//	cluster_source.go  workers of the cluster's nodes, also for a while behind a lost node
//	node_source.go     workers of a sidecar in the same process
//	claims.go          which node is believed about a worker
//	membership.go      this router's record in the cluster
//	topology.go        nodes and links
//
// # Concurrency
//
// Every exported method may be called from any goroutine. Manager.mu guards the sources and the
// workers; Registry.mu and Registry.comparing are taken under it. Topology.mu is taken alone.
// Nothing waits under Manager.mu, and its only I/O is a look at the file of workers' keys when a
// worker is added. Each source has a goroutine, and so has each removed worker, to forget its
// cache; Run waits for all of them.
package fleet
