// Package store keeps KV pages of a node's engines in host memory, gives them to any engine of the node, and pulls what is missing from
// the tiers of other nodes: an SGLang engine's third cache level.
//
// Pages are named by SGLang's own hash, in a namespace that tells the model, its weights, the rank, the layout and the type of the bytes (the package in
// integrations/sglang makes the name). Weights that change leave a namespace that nobody uses, and its pages (spaces.go); a clear drops those of a model,
// here and at peers (clear.go). One memfd holds them, cut into slabs of equal slots. wire.go describes the protocol with engines on a
// Unix socket, peerwire.go the one between tiers on TCP, trust.go how they know each other; bytes of pages move by shared memory and by NIXL.
//
// # Who writes where
//
// No process writes to memory of another, so that one that is stopped, late or dead can do no harm:
//
//   - To store, the tier copies from the engine's pool, which it maps read-only, into room that nobody sees. The engine confirms that it was waiting all the while;
//     only then are the pages readable. One that gave up, and has reused its pages, never confirms.
//   - To read, the engine copies from the tier's memory, which it maps read-only, under a lease that keeps the pages where they are. It counts the lease
//     from before it asked, so it knows by its own clock alone that what it copied was what it asked for.
//   - A peer reads by NIXL under a lease too, and into room that nobody sees until it is done. A transfer that was given up may write
//     for longer: its room is used for nothing else until the transfer is settled.
//
// # Eviction
//
// A use of a page is one of all pages before it, so leaves go first. Pages that were used again are kept apart from those that were not, in a proportion that is
// learnt as in ARC: a prompt that comes once does not flush the tier, and on conversations it is not worse than LRU, as fixed shares are (TestPolicyOnTrace).
// Pages of different sizes share the memory by slabs, which go to whom uses them.
//
// # Hints
//
// A router that sends a request here, and reckons with pages of another node's tier, says so at once (hints.go, package hint), so that they are on their way before the engine
// asks. Such a pull is no use of any page: what comes is on probation, whatever it was before, and one hint brings a quarter of the tier at most.
//
// # What a pull is worth
//
// When an engine asks, pages come from a peer only where they come faster than the engine computes them (worth.go): by what pulls from that peer took, and by
// Config.Prefill. A router's hint is followed in any case. How fast engines copy pages from here is measured too, and told to routers (speed.go).
//
// # Concurrency
//
// Tier's methods may be called from any goroutine. Tier.mu guards the index, leases and pulls, and is held for look-ups only, never for I/O or a copy; peerSet.mu,
// transport.mu, server.mu, peerServer.mu guard tables and are taken alone; speed.mu guards samples and is taken alone; peer.asking is held for one
// question to a peer, with a deadline. Goroutines,
// all of which end with Run: one for each connection of an engine and of a peer, one for each peer, which connects and pulls, one each for leases, for warming and
// for making NIXL's agents, one for each transfer in quarantine, and at most 16 for hints. hints.mu guards what hints are known, and is taken alone.
//
// # Ownership
//
// Run owns what it starts; Close, after it, gives the memory back. Slices that are passed in are not kept. A session's buffers belong to its goroutine; a
// pendingSet belongs to whom fills it, who commits or abandons it.
//
// # Errors
//
// [ErrConfig] for settings, [ErrTrust] for peers of another key or certificate, or of none, who are told so and refused, [ErrWire] and [ErrRegion] for clients and peers that break the protocol or their word, which ends their connection and no other,
// [ErrPageSize] and [ErrNamespaces] for pages that cannot be kept, [ErrHint] for hints, [ErrClosed] after Close.
package store
