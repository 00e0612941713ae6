// Package wire reads the little of HTTP/1.1 that both ends of the benchmark need: heads of requests
// and of answers, and chunks; and for workers the members of JSON objects.
//
// # Ownership
//
// Slices of a [Head] alias the parsed bytes.
//
// # Errors
//
// None: malformed input is reported as not ok.
package wire
