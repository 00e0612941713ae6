// Package request runs one client's request from its arrival to the end of its answer.
//
// # A request's life
//
// exchange.serve is the list of steps:
//
//	read      parse the body, or the chat that it stands for (api.go, turn.go); refuse token ids
//	          that would end an engine (api.go)
//	prompt    body to token ids or text, and their block hashes (prompt.go)
//	admit     wait while every rank is full (queue.go)
//	dispatch  until an answer begins (attempt.go):
//	  choose    a rank or a pair (choice.go)
//	  send      to a rank (attempt.go, body.go) or to both of a pair (pair.go)
//	  judge     the beginning of the answer (answer.go); retry, or keep the error (blame.go)
//	forward   the answer, as it comes (answer.go)
//	finish    tell router, breaker, metrics and access log how the answer ended (exchange.go)
//
// Any failure before the first byte of the answer leads to another worker and not to an error.
//
// [Handler] is the entry. [Server] owns the listeners of clients and operators; package admin
// serves the paths that are the router's own.
//
// # Concurrency
//
// fasthttp runs each request on its connection's goroutine. The exchange, which is the state of the
// request, belongs to that goroutine until upstream.Observer.Closed is called. Two other goroutines
// touch it, only to cancel: the watcher of clients, when the client leaves, and a worker's monitor,
// when the worker hangs. A request to a pair has one goroutine more, which runs the prefill leg;
// the exchange waits for it before it gives back any memory of the request. A bounded number of
// goroutines sends /abort_request for requests after their client has left or their other leg has
// failed; Run waits for them.
//
// # Ownership
//
// Exchanges are pooled. Bodies stay in fasthttp's buffers and are sent to the worker from there.
//
// # Errors
//
// failures.go has the one table of failures: try again, fault, suspicion and the client's answer.
package request
