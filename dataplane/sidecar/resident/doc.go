// Package resident keeps what a process has in memory to what it needs.
//
// Warmpath is one program: the router, the sidecar, NATS and the benchmarks are linked into every process, and the start of one
// touches most of it. [Trim] gives the program's pages back once that is over, and sees to it that they come back one by one.
//
// # Concurrency
//
// Trim may be called from any goroutine, and while others run: pages that are needed again are read from the page cache, at the price of a
// minor fault each. It stops nobody and takes a millisecond.
//
// # Errors
//
// None: where something cannot be given back, it stays.
package resident
