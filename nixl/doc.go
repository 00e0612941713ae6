// Package nixl is NVIDIA's transfer library as Go sees it: find it, open it, create agents, list their plugins.
//
// That is all that is here: enough to say whether this machine can move KV pages and by which plugins. Memory,
// transfers and peers are not in this package yet.
//
// The library is libnixl_capi.so from the wheels nixl-cu12 or nixl-cu13. It stays in its wheel's tree, because it finds
// its dependencies and plugins beside itself; [Find] knows the usual places, and the environment variable NIXL_CAPI_LIB
// names another. A library that is not there is a state, not a failure of the program: [Open] says what was tried.
//
// # Concurrency
//
// All methods may be called from any goroutine. Each [Agent] has one goroutine locked to one OS thread, which makes all
// calls into C for it; callers wait for their turn. Creating an agent takes milliseconds without a backend and up to a
// second with one, so no method belongs on the path of a request.
//
// # Ownership
//
// The caller closes its agents. Names and lists are copies. A library stays loaded until the process ends.
//
// # Errors
//
// [ErrNotFound] when no library is where one could be, [ErrClosed] after Close, and the errors of package cgo.
package nixl
