// Package nixl moves host memory between processes and machines with NVIDIA's transfer library
// NIXL: agents, registered memory, peers and transfers.
//
// The library is libnixl_capi.so from the wheels nixl-cu12 or nixl-cu13. It stays in its
// wheel's tree, where it finds its dependencies and plugins; [Find] lists the usual paths, and
// the environment variable NIXL_CAPI_LIB names another. A missing library is a state, not a
// failure of the program: [Open] returns every path that it tried. Tests use nixltest.Loopback
// in its place.
//
//	lib, err := nixl.Open("")
//	agent, err := nixl.NewAgent(lib, nixl.Config{})
//	mapping, err := nixl.NewMapping("tier", 8<<30) // a memfd
//	memory, err := agent.Register(mapping)
//	metadata, err := agent.Metadata()              // for peers, over any connection
//
//	remote, err := agent.Load(metadataOfAPeer)
//	theirs, err := remote.Memory(id)
//	pieces := []nixl.Piece{{Local: 0, Remote: 4096, Len: 4096}}
//	t, err := remote.Transfer(ctx, nixl.Read, memory, theirs, pieces)
//	if err != nil && t != nil {
//		<-t.Settled()                          // only now may the memory be reused
//	}
//
// # Abandoned transfers
//
// The library cannot stop a transfer. One that is given up, because of its context or of a dead
// peer, may still read or write its memory. It is an abandoned transfer until all its requests
// have ended well, and its memory stays registered and mapped. Where the peer is dead or
// [Config.AbandonTimeout] has passed, a new library agent replaces the present one, whose end
// settles everything. The replacement changes the agent's name: peers that read from it must
// load its metadata again. A process that both offers and reads memory therefore uses two
// agents with the same [Mapping] registered in both: the offering one never abandons a
// transfer, so the death of a peer does not reach the other peers.
//
// # Peers
//
// A [Remote] is one life of one peer. After its first fault it refuses everything with
// [ErrPeer]; the peer's next metadata, under another name, makes another Remote. Every wait for
// a peer has a deadline: that of the context, and [Config.Timeout].
//
// # Merging
//
// Pieces that are adjacent in both memories become one descriptor. A piece that is not costs
// about 2 µs over CMA, one system call. Longer lists are cut into requests of
// [Config.MaxDescriptors], of which [Config.Depth] are in progress at a time.
//
// # Concurrency
//
// All methods may be called from any goroutine. Each [Agent] has an executor: one goroutine
// locked to one OS thread that makes all calls into C, one after another; during a replacement
// there are two. Over CMA a post lasts as long as its copy and delays the other calls, so no
// method belongs on the request path. [Agent.Stats] never waits. Locks: memoryTable.mu,
// Agent.mu and Remote.mu guard tables for moments and are never held together; Mapping.mu is
// taken alone.
//
// # Ownership
//
// The caller closes its agents, memories and mappings, in any order: memory that a transfer
// could still touch stays mapped until the transfer is settled. Names and lists are copies. A
// library stays loaded until the process ends. Memory is never the Go heap's.
//
// # Errors
//
// [ErrNotFound] where no library is found, [ErrClosed] after Close, [ErrDown] while a
// replacement agent cannot be created, [ErrStuck] where the library does not end an agent,
// [ErrRegister], [ErrMetadata], [ErrRange] and [ErrNoMemory] before anything moves, [ErrPeer]
// and [ErrTimeout] for transfers, and the errors of package cgo.
package nixl
