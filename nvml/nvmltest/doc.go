// Package nvmltest is a fake NVIDIA driver: a libnvidia-ml.so.1 in C, compiled by the tests and
// opened by the real binding through the real loader. A [State] sets its facts and its faults:
// links that go down, counters that rise, XIDs, lost GPUs, functions that fail, hang or are
// missing, a reload of the driver. [HGX] is a healthy machine to begin with.
//
// A test process can use one library: the loader binds NVML's functions once, to the first
// library loaded. A test of missing functions runs in a process of its own. A process may build
// several drivers if it uses one at a time: the library obeys the state of the last.
//
// # Concurrency
//
// A [Driver] may be used from any goroutine, also while a reader reads: each call of the
// library sees the state of one Set.
//
// # Ownership
//
// The folder given to Build holds the library and its state, and is the caller's to remove. Set
// copies its argument.
package nvmltest
