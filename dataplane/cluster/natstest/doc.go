// Package natstest runs real nats-server processes for tests. They can be killed, stopped and
// restarted, with and without their store.
//
// # Concurrency
//
// A Server belongs to its test's goroutine.
package natstest
