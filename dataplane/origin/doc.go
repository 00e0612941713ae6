// Package origin refuses requests that a web page makes a browser send to an operator's API. A
// browser on the operator's machine reaches what listens on loopback, and knows no better than to
// obey the page.
//
// # Concurrency
//
// A Guard may be used from any goroutine.
//
// # Errors
//
// [ErrHost], [ErrOrigin] and [ErrType]; each says what to do.
package origin
