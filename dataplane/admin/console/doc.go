// Package console is the router's web page: one HTML file, embedded, that polls the operator API's /status each second.
//
// The page loads nothing from anywhere else, so it works on a machine without a network, and it writes what it was told
// with textContent only: a worker's name cannot become HTML. A field that /status does not carry shows as a dash, and
// a router that does not answer is said to be unreachable, with the time since when; the last values stay in sight.
// Where /status wants the operator's key, the page asks for it and sends it as a bearer token.
//
// # Concurrency
//
// Page may be called from any goroutine.
//
// # Ownership
//
// The bytes that Page returns are shared: callers must not change them.
package console
