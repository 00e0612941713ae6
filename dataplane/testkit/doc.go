// Package testkit serves tests: a wait for a condition, and a text that goroutines write.
package testkit
