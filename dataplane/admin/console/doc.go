// Package console is the router's web page, which shows and changes the router's state by the
// operator API.
//
// The page is written in TypeScript, in ui. Its build is in static and embedded: `make console`
// makes it anew, and TestBuild fails where it is not of these sources.
//
// The page loads nothing from elsewhere, so that it works on a machine without a network. It makes
// no HTML of strings, and the browser holds it to that by the Content-Security-Policy: a worker's
// name stays text. A value that is not known shows as a dash. While the router does not answer, the
// page says since when and keeps the last values. Where the operator API needs its key, the page
// asks for it and sends it as a bearer token.
//
// # Concurrency
//
// All functions may be called from any goroutine.
//
// # Ownership
//
// The bytes that File returns are shared: callers must not change them.
package console
