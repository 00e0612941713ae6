// Package trace reads recorded requests: Mooncake's format, and the router's own access log, which is that format with more
// fields.
//
// # Concurrency
//
// [Read] may be called from any goroutine.
//
// # Ownership
//
// What Read returns is the caller's.
//
// # Errors
//
// [ErrTrace] is a line that cannot be meant, with its number.
package trace
