// Package cgotest builds a small libnixl_capi.so in C, so that tests drive the real dlopen path without NIXL.
//
// The fake knows two plugins, UCX and POSIX, of which it can create the first, and moves memory between agents of one process. What it does is in names.
// Agents: "refuse…" is not created, "full…" registers no memory, "stubborn…" says at its end that it failed. Peers of a transfer: "slow…" is done at the
// 1,000th look, "never…" is not, "reset…" fails in the post, "breaks…" at the third look. Metadata is the agent's name; with a "!" it is refused. Every call with
// an agent from another thread than the one that created it is refused: the rule that package nixl must keep.
//
// # Concurrency
//
// Functions may be called from tests that run in parallel; each builds its own library.
//
// # Ownership
//
// A library lies in the test's temporary folder and stays loaded until the test process ends.
package cgotest
