// Package router composes a Warmpath router of its parts: sources of workers, KV event intake,
// index, choice, HTTP server.
//
// # Concurrency
//
// New binds the listeners and starts nothing. Run owns every goroutine of the router and returns
// when all of them have ended: the HTTP server drains first, then the workers' monitors and event
// streams stop.
//
// # Errors
//
// New returns configuration errors that name the flag at fault.
package router
