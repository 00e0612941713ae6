// Package natstest runs real nats-server processes for tests: they can be killed, stopped and restarted, with and without what they
// have stored.
//
// # Concurrency
//
// A Server belongs to its test's goroutine.
package natstest
