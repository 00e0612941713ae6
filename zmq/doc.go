// Package zmq carries engines' event streams over ZeroMQ: a subscriber, replay of what one missed, and a publisher that
// behaves like an engine's.
//
// A live message is three frames, [topic, sequence: 8 bytes big-endian, payload]. A replay request is ["", first
// sequence], its answers are ["", topic, sequence, payload]* and then ["", "", ff×8, ""]; SGLang up to 0.5.15 leaves the
// topic frame out. Payloads are not looked at here; package kvevent reads them.
//
// [Subscribe] and [Replay] speak ZMTP 3.1 and 3.0 (rfc.zeromq.org/spec/37 and /23) with the mechanism NULL by themselves:
// libzmq's threads would wake for each message, and the Go runtime's with them; and its queues would take a long replay whole,
// outside Go's heap, where 1,000 events of 64 KB prompts came to 100 MB. [Publisher] is libzmq's.
//
// ZeroMQ drops silently where a queue is full, and a subscriber misses what was sent before its connection stood. The
// sequence numbers are the only sign of it: whoever keeps state from a stream must check each one, and ask [Replay].
// Subscribe first and replay afterwards, so that the two overlap instead of leaving a gap between them.
//
// # Concurrency
//
// Subscribe runs on its caller's goroutine until its context is done, and all of a subscription's callbacks do too, unless
// it binds: then each publisher that connects has a goroutine of its own, callbacks are still one at a time, and Subscribe
// returns after the last of those. Nothing is read while a callback runs. A stream that waits costs its goroutine and
// socket, 12 KB, and no buffer.
//
// Replay runs on its caller's goroutine too.
//
// A libzmq socket belongs to one goroutine. [Publisher] makes and configures its sockets in the caller's goroutine under
// its mutex and hands them over to Run, which alone uses and closes them; every other method talks to Run through a queue
// and an inproc wake-up socket guarded by the same mutex.
//
// # Ownership
//
// A Message aliases the read buffer and is its callback's until that returns; [Message.Clone] makes one to keep. Publish copies
// its payload. Each Publisher has its own libzmq context, ended with it: no thread, socket or file descriptor outlives Run.
//
// # Errors
//
// [ErrProtocol] is what OnDisconnect hears of a peer that is no publisher or breaks a rule or limit, and Replay's for a peer that is no ROUTER; [ErrClosed] comes after
// Close or the end of Run; [ErrRunning] for a second Run; [ErrMalformed] for an answer that is not a replay. A malformed
// live message is no error: it is dropped, and Subscription.OnMalformed is told.
package zmq
