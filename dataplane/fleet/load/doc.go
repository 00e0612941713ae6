// Package load follows what workers publish of their load: the batch, the
// queue, the KV pool and how fast they prefill. What comes goes to the rank's
// worker.Load; those that publish nothing are asked over HTTP by package worker.
//
// # Concurrency
//
// Follower is a worker.Observer: Up and Down of one worker come from one
// goroutine. Each rank that publishes has a goroutine of its own from Up to
// Down, which waits for it.
//
// # Ownership
//
// Nothing is kept of a message.
package load
