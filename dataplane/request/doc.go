// Package request is the router's HTTP face: routes, limits, the path of a
// request from the client to a worker and back, and the operator's API.
//
// # Who reads a request
//
// The server is fasthttp's: it accepts connections, gives each a goroutine, and
// drains them. Plain requests, which are nearly all that a router gets, do not
// pass through it, though: proxy.Plain reads and answers them within the read by
// which fasthttp waits for the next request. That is a sixth of what a small
// request costs. They are POSTs of HTTP/1.1 to the paths of apiOf that say what
// they want in the one usual way. All others are fasthttp's: other methods and
// paths (the operator's, models, aborts, preflights), chunked uploads,
// expectations, connections that are to be closed, TLS, heads that are unusual
// in any way; so are all errors in HTTP itself.
// An exchange sees either as a call. What a plain request's answer needs of
// fasthttp it gets as a response to fill: chunks and streams of events, gzip,
// changed bodies, the router's own errors. Only an answer that is here as a whole, and
// short, leaves without (proxy.Inbound.Pass).
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
// Bodies stay in the buffers into which they were read, fasthttp's or those of
// proxy.Inbound, and are sent to the worker from there.
//
// # Errors
//
// errorFor is the one table from errors to HTTP.
package request
