// Package requesttest runs a whole router over fake workers in tests.
//
// # Concurrency
//
// A Worker may be used by any goroutine. A Router's methods fail their test, and so belong to its
// goroutine; Try does not.
package requesttest
