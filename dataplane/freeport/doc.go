// Package freeport keeps TCP ports for processes that will listen there.
//
// A port that was free a moment ago may be another process's when it is needed. A held one is
// bound, and nobody listens on it: the kernel gives it to no connection and to no listener that
// asks for any port, nobody else can hold it, and a listener with SO_REUSEADDR, which Go and all
// usual servers set, binds it once or again. Systems other than Linux have no such state.
//
// # Concurrency
//
// Hold may be called from any goroutine, in any number of processes.
package freeport
