// Package otlptest is a collector of traces for tests.
//
// # Concurrency
//
// All methods may be called from any goroutine.
package otlptest
