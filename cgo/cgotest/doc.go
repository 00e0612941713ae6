// Package cgotest builds a small libnixl_capi.so in C, so that tests drive the real dlopen path
// without NIXL.
//
// The fake has two plugins, UCX and POSIX, of which it can create the first, and moves memory
// between agents of one process. Names choose its faults. Agents: "refuse…" is not created,
// "full…" registers no memory, "stubborn…" reports a failure when it is destroyed. Peers of a
// transfer: "slow…" is done at the 1,000th poll, "never…" never, "reset…" fails in the post,
// "breaks…" at the third poll. Metadata is the agent's name; with a "!" it is refused. A call
// with an agent from another thread than its creator's is refused: package nixl must keep that
// rule.
//
// # Concurrency
//
// Functions may be called from parallel tests; each builds its own library.
//
// # Ownership
//
// A library lies in the test's temporary folder and stays loaded until the test process ends.
package cgotest
