// Package load follows the load that workers publish: the batch, the queue, the KV pool and the
// prefill speed. Messages go to the rank's worker.Load; package worker polls the other workers
// over HTTP.
//
// # Concurrency
//
// Follower is a worker.Observer: Up and Down of one worker come from one goroutine. Each rank
// that publishes has a goroutine of its own from Up to Down, which waits for it.
//
// # Ownership
//
// No part of a message is kept.
package load
