// Package testkit serves tests: a wait for a condition, a text that goroutines write, and both ends
// of a connection.
package testkit
