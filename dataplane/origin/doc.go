// Package origin decides which web pages may make a browser call an API. A browser on the
// operator's machine reaches what listens on loopback, and knows no better than to obey the page: a
// [Guard] refuses that for an operator's API. Pages of [Allowed] origins may call the clients' API.
//
// # Concurrency
//
// A Guard and an Allowed may be used from any goroutine.
//
// # Errors
//
// [ErrHost], [ErrOrigin] and [ErrType]; each says what to do.
package origin
