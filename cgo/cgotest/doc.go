// Package cgotest builds a small libnixl_capi.so in C, so that tests drive the real dlopen path without NIXL.
//
// The fake knows two plugins, UCX and POSIX. It refuses an agent with an empty name or the name "refuse", and refuses
// every call with an agent from another thread than the one that created it: the rule that package nixl must keep.
//
// # Concurrency
//
// Functions may be called from tests that run in parallel; each builds its own library.
//
// # Ownership
//
// A library lies in the test's temporary folder and stays loaded until the test process ends.
package cgotest
