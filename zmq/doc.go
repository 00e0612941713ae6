// Package zmq carries engines' event streams over ZeroMQ: a subscriber, the replay of messages
// that a subscriber missed, and a publisher that behaves like an engine's.
//
// A live message is three frames, [topic, sequence: 8 bytes big-endian, payload]. A replay
// request is ["", first sequence]; its answers are ["", topic, sequence, payload]* and then
// ["", "", ff×8, ""]. SGLang up to 0.5.15 omits the topic frame. Package kvevent reads the
// payloads.
//
// The package speaks ZMTP 3.1 and 3.0 (rfc.zeromq.org/spec/37 and /23) with the mechanism NULL,
// over tcp and ipc. libzmq is the other end in its tests, and not linked: its threads would
// wake for each message, and the Go runtime's with them; its queues would hold a long replay
// outside Go's heap, 100 MB for 1,000 events of 64 KB prompts. Built with -tags libzmq,
// subscriptions and replays can use CURVE over libzmq, see [EnvCurve].
//
// ZeroMQ drops silently where a queue is full, and a subscriber misses the messages sent before
// its connection was up. The sequence numbers are the only sign of either: a subscriber that
// keeps state must check each number, and request a replay for a gap. It subscribes first and
// replays afterwards, so that the two overlap and leave no gap.
//
// # Concurrency
//
// Subscribe runs on its caller's goroutine until its context is done, and so do all callbacks
// of the subscription. Nothing is read during a callback. A silent stream costs its goroutine and
// socket, 12 KB, and no buffer. Replay runs on its caller's goroutine.
//
// All methods of [Publisher] may be called from any goroutine. Run has a goroutine for each
// replay client and two for each subscriber; none is left when it returns. A liveStream's mutex
// guards all queues of a publisher and is held only for memory operations.
//
// # Ownership
//
// A Message aliases the read buffer and is valid until its callback returns; [Message.Clone]
// copies it. Publish copies its payload once, for all subscribers and replays.
//
// # Errors
//
// [ErrProtocol] is passed to OnDisconnect for a peer that is not a publisher or that breaks a
// rule or limit, and returned by Replay for a peer that is not a ROUTER. [ErrRunning] is
// returned by a second Run, [ErrMalformed] by Replay for an answer of another form, [ErrCurve]
// where CURVE is configured and cannot be used. A malformed live message is dropped and
// reported to Subscription.OnMalformed.
package zmq
