// Package trace reads recorded requests: Mooncake's format, and the router's own access log,
// which is that format with more fields.
//
// # Concurrency
//
// [Read] may be called from any goroutine.
//
// # Ownership
//
// The result of Read is the caller's.
//
// # Errors
//
// [ErrTrace] is a malformed line, with its number.
package trace
