// Package cgo is the C edge of NIXL: it loads libnixl_capi.so with dlopen and calls it.
//
// It is the only package of this module with an import "C" of its own. The library is not linked: the binary needs libc
// only, starts on every machine, and says in words what is missing when a library is asked for. What is here is what the
// router uses today: open a library, create an agent, list its plugins, destroy it. The signatures are those of
// wrapper.h in the crate nixl-sys 1.5.1, which documents this C ABI; it has no version call, so a library is accepted
// when it exports every function in the table of shim.c.
//
// Without cgo, or off Linux, the package builds and Open returns [ErrUnavailable].
//
// # Concurrency
//
// Open may be called from any goroutine. All calls with one [Agent] belong to one OS thread, the one that created it:
// package nixl has the goroutine that keeps this. No call here belongs on the path of a request.
//
// # Ownership
//
// A library stays loaded until the process ends: its plugins start threads that outlive a dlclose. Strings are copied in
// both directions; C keeps no pointer into Go memory.
//
// # Errors
//
// [ErrUnavailable], [ErrOpen] and [ErrSymbol] say why there is no library. A call that the library refuses returns a
// [StatusError].
package cgo
