// Package cgo calls NVIDIA's NIXL through its C library libnixl_capi.so, opened with dlopen.
//
// It is the only package with an import "C" of its own. The library is not linked, so the
// binary starts on every machine and reports a missing library when one is asked for. The
// signatures are those of wrapper.h in the crate nixl-sys 1.5.1, which documents this C ABI.
// The ABI has no version call, so a library is accepted when it exports every function in abi.h.
//
// Without cgo, or off Linux, the package holds only [Open], which returns [ErrUnavailable], and
// the types without methods.
//
// # Concurrency
//
// Open may be called from any goroutine. All calls with one [Agent] belong to the OS thread
// that created it; package nixl runs the goroutine that owns the thread. No call belongs on the
// request path.
//
// # Ownership
//
// A library stays loaded until the process ends: its plugins start threads that outlive a
// dlclose. Strings are copied in both directions; C keeps no pointer into Go memory.
//
// # Errors
//
// [ErrUnavailable], [ErrOpen] and [ErrSymbol] explain a missing library. A call that the
// library refuses returns a [StatusError].
package cgo
