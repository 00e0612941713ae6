// Package nixl moves memory between processes and machines with NVIDIA's transfer library: agents, memory, peers, transfers.
//
// The library is libnixl_capi.so from the wheels nixl-cu12 or nixl-cu13. It stays in its wheel's tree, because it finds
// its dependencies and plugins beside itself; [Find] knows the usual places, and the environment variable NIXL_CAPI_LIB
// names another. A library that is not there is a state, not a failure of the program: [Open] says what was tried.
// [Loopback] stands in for the library within one process, with the same rules, and with faults on demand.
//
//	lib, err := nixl.Open("")
//	agent, err := nixl.NewAgent(lib, nixl.Config{})
//	mapping, err := nixl.NewMapping("tier", 8<<30) // a memfd; or AdoptFile for one of another process
//	memory, err := agent.Register(mapping)
//	blob, err := agent.Metadata()                  // for peers, by whatever way
//
//	remote, err := agent.Load(theirs)              // a peer's blob
//	theirs, err := remote.Memory(id)
//	t, err := remote.Transfer(ctx, nixl.Read, memory, theirs, []nixl.Piece{{Local: 0, Remote: 4096, Len: 4096}}, nil)
//	if err != nil && t != nil {
//		<-t.Settled()                          // only now may the pages be used for something else
//	}
//
// # Quarantine
//
// The library cannot stop a transfer. One that is given up, because of its context or of a dead peer, may still move bytes into its memory or out of it, so
// it stays in quarantine, with its memory, until all its requests have ended well. Where they will not, since the peer is dead or too much time has passed,
// another agent of the library takes the place of this one, and the end of the old one settles everything ([Config.QuarantineAge], [Stats]). That changes the
// agent's name: peers that read from it must load its metadata again. So a process that offers memory to others and also takes from them uses two
// agents, one for each, with the same [Mapping] registered in both; the one that offers never has anything in quarantine, and a peer's death does not spread.
//
// # Peers
//
// A [Remote] is one life of one peer. After its first fault it refuses everything with [ErrPeer]; the peer's next metadata, under another name, makes
// another Remote. Nothing waits for a peer without a deadline: that of the context, and [Config.Timeout].
//
// # Merging
//
// Pieces that are neighbours in both memories become one descriptor. What is not contiguous on both sides costs about 2 µs a piece over CMA (a system
// call each), whoever merges. Longer lists are cut into requests of [Config.MaxDescriptors], of which [Config.Depth] are under way at a time.
//
// # Concurrency
//
// All methods may be called from any goroutine. Each [Agent] has one goroutine locked to one OS thread, which makes all calls into C for it; callers wait for
// their turn. While another agent of the library takes its place, there are two for a while. Over CMA a post lasts as long as its copy and holds up the others;
// no method belongs on the path of a request. [Agent.Stats] never waits. Locks: Agent.mu and Remote.mu guard tables, are held for
// moments and never together; Mapping.mu is taken alone.
//
// # Ownership
//
// The caller closes its agents, memories and mappings, in any order: what a transfer could still touch stays mapped until it is settled. Names and lists are
// copies. A library stays loaded until the process ends. Memory is never the Go heap's.
//
// # Errors
//
// [ErrNotFound] when no library is where one could be, [ErrClosed] after Close, [ErrDown] while an agent cannot be made again, [ErrStuck] where the library
// does not end one, [ErrRegister], [ErrMetadata], [ErrRange] and [ErrNoMemory] for what is refused before anything moves, [ErrPeer] and [ErrTimeout] for
// transfers, and the errors of package cgo.
package nixl
