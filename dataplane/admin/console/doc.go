// Package console is the router's web page: one embedded HTML file that polls the operator API's
// /status each second.
//
// The page loads nothing from elsewhere, so that it works on a machine without a network. It writes
// values by textContent only, so that a worker's name cannot become HTML. A field that /status
// lacks shows as a dash. While the router does not answer, the page says since when it is
// unreachable and keeps the last values. Where /status needs the operator key, the page asks for it
// and sends it as a bearer token.
//
// # Concurrency
//
// Page may be called from any goroutine.
//
// # Ownership
//
// The bytes that Page returns are shared: callers must not change them.
package console
