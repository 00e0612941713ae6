package zmq

import (
	"bytes"
	"errors"
	"time"
)

var (
	// ErrMalformed is returned by Replay for an answer of another form.
	ErrMalformed = errors.New("zmq: malformed message")
	// ErrProtocol is passed to Subscription.OnDisconnect for a peer that is not a publisher,
	// does not speak ZMTP 3, or breaks one of its rules or our limits. The text names it and
	// the thing to check.
	ErrProtocol = errors.New("zmq: protocol")
	// ErrRunning is returned by a second Run, and by Run after Close.
	ErrRunning = errors.New("zmq: already running")
)

// Message is one message of a stream. Its slices are valid until the callback returns;
// [Message.Clone] copies them.
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
	// maxMessage bounds a message, and a peer that sends more is disconnected: a million tokens
	// take 5 MB.
	maxMessage = 64 << 20

	// A worker that comes back must be followed at once, one that stays away must cost little.
	// libzmq waits 100 ms between attempts by default, without backing off.
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 500 * time.Millisecond
	// connectTimeout ends an attempt at a host that swallows SYN packets; the kernel would try
	// for two minutes.
	connectTimeout = 2 * time.Second
	// handshakeTimeout ends a connection to a peer that accepts and sends nothing; libzmq's
	// default is 30 s.
	handshakeTimeout = 5 * time.Second
	// keepaliveIdle and keepaliveInterval × keepaliveCount find a machine that vanished in 25 s
	// instead of two hours.
	keepaliveIdle     = 10 * time.Second
	keepaliveInterval = 5 * time.Second
	keepaliveCount    = 3
)
