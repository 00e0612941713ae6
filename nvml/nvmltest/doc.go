// Package nvmltest is an NVIDIA driver that is not there: a libnvidia-ml.so.1 written in C, built by the tests, which
// drives the real binding through the real loader. What it tells is set by a [State].
//
// Only one variant per test process: the loader binds NVML's functions once, to the first library that was loaded. A
// test that needs another variant runs in a process of its own.
//
// # Concurrency
//
// Set may be called while a reader reads: the fake reads its state anew at each call, and the state's file is replaced
// in one step.
//
// # Ownership
//
// The folder given to Build holds the library and its state, and is the caller's to remove.
package nvmltest
