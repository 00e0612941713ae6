// Package store keeps the KV pages of a node's engines in host memory, gives them to any engine
// of the node, and pulls absent pages from the stores of other nodes: the third cache level of an
// SGLang engine.
//
// A page is named by SGLang's hash within a namespace, which names the model, weights, rank,
// memory layout and data type (the package in integrations/sglang writes it). A change of weights
// leaves an unused namespace, which is discarded with its pages; a clear discards the pages of a
// model here and at peers (clear.go). One memfd holds all pages in slabs of equal slots. Engines
// use the protocol of enginewire.go on a Unix socket, stores that of peerwire.go on TCP,
// authenticated as in handshake.go. Bytes of pages move by shared memory and by NIXL.
//
//	type          job
//	Store         composition: New, Run, Close, statistics
//	pages         lock of the index, and lifetime of the arena
//	index         pages and their slots: pageTable, evictor, namespaces, changeLog
//	leases        pins of readers
//	engineServer  connections of engines: engineSession
//	peerServer    connections of other stores: peerSession
//	peerClient    questions to other stores, and pulls: peer, link, incoming
//	transport     NIXL agents
//	prefetcher    pull hints of routers
//	ChangeFeed    changes, for package announce
//
// # Writers
//
// No process writes to memory of another process, so a stopped, late or dead process does no harm:
//
//   - To store, the sidecar copies from the engine's pool, which it maps read-only, into slots that no
//     reader sees. The engine then confirms that it waited all the while, and only that makes the pages
//     readable. An engine that gave up and reused its pages never confirms.
//   - To read, the engine copies from the arena, which it maps read-only, under a lease that pins the
//     pages. It counts the lease from before its question, so its own clock proves the copy valid.
//   - A peer reads by NIXL, under a lease too, into slots that no reader sees. An abandoned transfer may
//     write for longer: its slots stay in quarantine until the transfer has settled.
//
// # Eviction
//
// A use of a page counts for all pages before it, so leaves are evicted first. Pages that were
// used again are kept in a queue of their own, with a share that adapts as in ARC: a prompt that
// comes once does not flush the store, and conversations fare no worse than with LRU, which they
// do with fixed shares (TestPolicyOnTrace). Pages of different sizes share the memory by slabs,
// which move to the size in use.
//
// # Prefetch
//
// A router that sends a request here and counts on pages of another node's tier says so at once,
// by a pull hint (package hint), so that the pages are under way before the engine asks. Such a
// pull is no use of a page: prefetched pages are on probation, and one hint pulls a quarter of
// the store at most.
//
// When an engine asks, pages come from a peer only where the link brings them faster than the
// engine computes them, by the measured rate of pulls and Config.PrefillRate. The rate at which
// engines read from this store is measured too, and announced to routers.
//
// # Concurrency
//
// Store's methods may be called from any goroutine. pages.mu guards the index and is held for
// lookups only, never for I/O or a copy. leases.mu, incoming.mu, peerClient.mu, transport.mu,
// handshaker.mu, prefetcher.mu, rate.mu and that of serveConnections guard tables and are taken
// alone; tally.mu guards the counts, and is taken below any of them. peer.asking is held for one
// question to a peer, with a deadline. All goroutines end with Run: one for each of the two
// listeners and for each of their connections, one for each peer, which connects and pulls, one for
// each peer that is asked or told of a clear, while the asker waits, one each for leases and for
// making NIXL's agents, one for each transfer in quarantine, and at most 16 for hints.
//
// # Ownership
//
// Run owns its goroutines; Close, after it, frees the memory. Arguments are not kept, except for
// the bytes of a pull hint. The buffers of a session belong to its goroutine, and so does a
// batch, which is committed or abandoned.
//
// # Errors
//
// [ErrConfig] is for settings, [ErrUntrusted] for peers that are refused or refuse. [ErrWire] and
// [ErrRegion] are for engines and peers that break the protocol, which ends their connection and no
// other; [ErrPageSize] and [ErrNamespaces] for pages that cannot be kept.
// [ErrClosed] comes after Close.
package store
