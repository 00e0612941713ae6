// Package operator has the common parts of the router's and the sidecar's APIs for operators: the
// check of their key, and the profiles of the process.
//
// # Concurrency
//
// All may be used from any goroutine. A request with a wrong key waits for a second in it.
//
// # Errors
//
// An [Error] is the answer to a profile that cannot be had.
package operator
