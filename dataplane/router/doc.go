// Package router wires the router together and owns its lifetime: event
// intake, index, worker registry, policy and HTTP server.
//
// # Concurrency
//
// New binds the listeners and starts nothing. Run owns every goroutine of the
// router and returns when all of them have ended: first the HTTP server drains,
// then the workers' monitors and event streams stop.
//
// # Who the workers are
//
// A keeper merges what flags, operators, discovered sources and the cluster name, adds what is new to the registry, and takes away
// what nobody names any more without losing a request. Reload takes over another configuration while requests are served.
//
// # Errors
//
// New returns configuration errors in words that name the flag at fault.
package router
