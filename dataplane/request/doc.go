// Package request is the router's HTTP face: routes, limits, the path of a
// request from the client to a worker and back, and the operator's API.
//
// # Entry
//
// Package ingress accepts connections and has fasthttp parse each request; the
// handlers get it with its body read. A call is that request and the response to
// fill. Package upstream sends it to a worker and makes the worker's answer the
// response: a short whole one as a copy, all others as a stream.
//
// # Concurrency
//
// fasthttp runs each request on its connection's goroutine; an exchange, the
// state of one request, belongs to it until upstream.Observer.Closed is called.
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
// A body stays in the memory into which ingress has read it, and is sent to the
// worker from there.
//
// # Errors
//
// errorFor is the one table from errors to HTTP.
package request
