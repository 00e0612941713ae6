// Package zmq carries engines' event streams over ZeroMQ: a receiver of many streams, replay of what one missed, and a
// publisher that behaves like an engine's.
//
// A live message is three frames, [topic, sequence: 8 bytes big-endian, payload]. A replay request is ["", first
// sequence], its answers are ["", topic, sequence, payload]* and then ["", "", ff×8, ""]; SGLang up to 0.5.15 leaves the
// topic frame out. Payloads are not looked at here; package kvevent reads them.
//
// ZeroMQ drops silently where a queue is full, and a subscriber misses what was sent before its connection stood. The
// sequence numbers are the only sign of it: whoever keeps state from a stream must check each one, and ask [Replay].
// Subscribe first and replay afterwards, so that the two overlap instead of leaving a gap between them.
//
// # Concurrency
//
// A ZeroMQ socket belongs to one goroutine. [Receiver] and [Publisher] make and configure sockets in the caller's
// goroutine under their mutex and hand them over to Run, which alone uses and closes them; every other method talks to
// Run through a queue and an inproc wake-up socket guarded by the same mutex. Callbacks run on the goroutine of Run: one
// that blocks stops every stream of that receiver, and one may call Subscribe and cancel.
//
// # Ownership
//
// A Message is a fresh copy that belongs to the callback. Publish copies its payload. Each Receiver and Publisher has its
// own ZeroMQ context, ended with it: no thread, socket or file descriptor outlives Run and Close.
//
// # Errors
//
// [ErrClosed] after Close or the end of Run; [ErrRunning] for a second Run; [ErrMalformed] for an answer that is not a
// replay. A malformed live message is no error: it is dropped, and Subscription.OnMalformed is told.
package zmq
