package zmq

import (
	"bytes"
	"errors"
	"time"
)

var (
	// ErrMalformed is returned by Replay for an answer that is not one.
	ErrMalformed = errors.New("zmq: malformed message")
	// ErrProtocol is what Subscription.OnDisconnect is told of a peer that is no publisher, speaks no ZMTP 3 or breaks one of
	// its rules or our limits. The text says which, and what to check.
	ErrProtocol = errors.New("zmq: protocol")
	// ErrRunning is returned by a second Run, and by Run after Close.
	ErrRunning = errors.New("zmq: already running")
)

// Message is one message of a stream. Its slices are the callback's until it returns, and then no longer: [Message.Clone]
// makes one to keep.
type Message struct {
	Topic   []byte // As published; a subscription may match a prefix of it.
	Seq     uint64 // Counts from 0 at the publisher's start.
	Payload []byte
}

// Clone returns a copy that shares no memory with m.
func (m Message) Clone() Message {
	return Message{Topic: bytes.Clone(m.Topic), Seq: m.Seq, Payload: bytes.Clone(m.Payload)}
}

const (
	// endSeq is the sequence that ends a replay: ff×8.
	endSeq = 1<<64 - 1
	// maxMessage disconnects a peer that sends more: a million tokens take 5 MB.
	maxMessage = 64 << 20

	// A worker that comes back must be heard at once, one that stays away must not cost much. libzmq waits 100 ms
	// between attempts by default and has no ceiling to back off to.
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 500 * time.Millisecond
	// connectTimeout ends an attempt at a host that swallows SYN packets; the kernel would try for two minutes.
	connectTimeout = 2 * time.Second
	// handshakeTimeout ends an attempt at a peer that accepts but does not speak; libzmq's default is 30 s.
	handshakeTimeout = 5 * time.Second
	// keepaliveIdle and keepaliveInterval × keepaliveCount find a machine that vanished in 25 s instead of two hours.
	keepaliveIdle     = 10 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3
)
