// Package proxy measures the cost of a router, in processor time, memory and added latency, between
// workers and clients that cost next to nothing themselves.
//
//	file             job
//	measure.go       one run of package load with the router's usage
//	usage_linux.go   processor time, memory, descriptors of a process and its children
//	peers.sh         installs other routers
//	compare.py       workers and routers in processes and on cores of their own, side by side
//
// Its parts: mock has the workers, load the clients; both are built on loop and wire.
//
// # Counts
//
// Processor time is that of the router's processes from the kernel's own account in nanoseconds,
// user and system, between the first and the last moment of the measured time, over the requests
// that ended in it. Memory is the resident set. With two cores or more, the router has one and
// workers and load have others.
//
// # Errors
//
// [ErrFailed] where a measurement was made and requests failed.
package proxy
