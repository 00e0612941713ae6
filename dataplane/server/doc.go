// Package server is the router's HTTP face: routes, limits, the path of a
// request from the client to a worker and back, and the operator's API.
//
// # Concurrency
//
// fasthttp runs each request on its connection's goroutine; an exchange, the
// state of one request, belongs to it until proxy.Observer.Closed is called.
// The only other goroutines that touch an exchange are the watcher, when the
// client goes away, and a worker's monitor, when the worker hangs: both only
// cancel. A request to a pair of workers has one goroutine more, which runs the
// prefill leg (prefillLeg): the exchange's own runs the decode leg, and waits
// for the other to end before it gives back any memory of the request. A bounded
// number of goroutines sends /abort_request for requests whose client has gone
// or whose other leg has failed; Run waits for them.
//
// # Ownership
//
// Bodies stay in fasthttp's buffers and are sent to the worker from there.
//
// # Errors
//
// errorFor is the one table from errors to HTTP.
package server
