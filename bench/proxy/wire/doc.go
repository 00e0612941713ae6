// Package wire reads the little of HTTP/1.1 that both ends of the benchmark need: heads of requests and of answers, and chunks.
//
// # Ownership
//
// Slices of a [Head] alias what was parsed.
//
// # Errors
//
// None: what is malformed is reported as not ok.
package wire
