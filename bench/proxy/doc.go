// Package proxy measures the cost of a router, in processor time, memory and added latency, between
// workers and clients that cost next to nothing themselves.
//
//	file             job
//	cluster.go       workers and a router in processes and on cores of their own
//	measure.go       one run of package load with the router's usage
//	usage_linux.go   processor time, memory, descriptors of a process and its children
//	pin_linux.go     cores
//	standard.go      direct and through the router, side by side
//	soak.go          half load for long, with rests
//	growth.go        growth from rest to rest
//	memory.go        long prompts of which no two are alike
//	peers.sh         installs other routers
//	compare.py       all of them in one run
//
// Its parts: mock has the workers, load the clients; both are built on loop and wire.
//
// # What is counted
//
// Processor time is that of the router's processes from the kernel's own account in nanoseconds,
// user and system, between the first and the last moment of the measured time, over the requests
// that ended in it. Memory is the resident set. With two cores or more, the router has one and
// workers and load have others.
//
// # Errors
//
// [ErrFailed] where a measurement was made and says that something is wrong: requests failed,
// memory grows.
package proxy
