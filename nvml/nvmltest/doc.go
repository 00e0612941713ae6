// Package nvmltest is an NVIDIA driver that is not there: a libnvidia-ml.so.1 written in C, built by the tests, which
// drives the real binding through the real loader. What it tells is set by a [State], and so are the faults: links that
// go down, counters that rise, XIDs, GPUs that are lost, functions that fail, hang or are missing, a driver that is
// reloaded. [HGX] is a machine to begin with.
//
// Only one library per test process: the loader binds NVML's functions once, to the first that was loaded. A test that
// needs functions to be missing runs in a process of its own. Several drivers may be built in one process if none at the
// same time: the library heeds the state of the last one.
//
// # Concurrency
//
// A [Driver] may be used from any goroutine, also while a reader reads: each call of the library sees the state as it
// was after some Set.
//
// # Ownership
//
// The folder given to Build holds the library and its state, and is the caller's to remove. What is passed to Set is
// copied.
package nvmltest
