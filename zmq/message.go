package zmq

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	zmq4 "github.com/pebbe/zmq4"
)

var (
	// ErrClosed is returned by what is asked of a Publisher after its end.
	ErrClosed = errors.New("zmq: closed")
	// ErrMalformed is returned by Replay for an answer that is not one.
	ErrMalformed = errors.New("zmq: malformed message")
	// ErrProtocol is what Subscription.OnDisconnect is told of a peer that is no publisher, speaks no ZMTP 3 or breaks one of
	// its rules or our limits. The text says which, and what to check.
	ErrProtocol = errors.New("zmq: protocol")
	// ErrRunning is returned by a second Run.
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
	// DefaultHWM is the number of messages that a publisher queues for a subscriber before it drops, as in the engines.
	DefaultHWM = 100_000
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

// newContext returns a context of our own.
func newContext() (*zmq4.Context, error) {
	c, err := zmq4.NewContext()
	if err != nil {
		return nil, err
	}
	// Go's preemption signals interrupt system calls all the time.
	c.SetRetryAfterEINTR(true)
	return c, nil
}

// step is one option to set, deferred so that a list of them stops at the first error.
type step func() error

func each(steps ...step) error {
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

// keepalive makes the kernel notice that a peer's machine is gone.
func keepalive(s *zmq4.Socket) error {
	return each(
		func() error { return s.SetTcpKeepalive(1) },
		func() error { return s.SetTcpKeepaliveIdle(int(keepaliveIdle / time.Second)) },
		func() error { return s.SetTcpKeepaliveIntvl(int(keepaliveInterval / time.Second)) },
		func() error { return s.SetTcpKeepaliveCnt(keepaliveCount) },
	)
}

// prepare sets what every TCP socket of ours needs, above all to find a peer soon after it returns. IPv6 is for literal
// addresses only, as in the engines: with it on, "localhost" would mean ::1, where an engine on 127.0.0.1 is not.
func prepare(s *zmq4.Socket, endpoint string) error {
	return each(
		func() error { return s.SetIpv6(strings.Contains(endpoint, "[")) },
		func() error { return s.SetLinger(0) },
		func() error { return s.SetReconnectIvl(reconnectMin) },
		func() error { return s.SetReconnectIvlMax(reconnectMax) },
		func() error { return s.SetConnectTimeout(connectTimeout) },
		func() error { return s.SetHandshakeIvl(handshakeTimeout) },
		func() error { return s.SetMaxmsgsize(maxMessage) },
		func() error { return keepalive(s) },
	)
}

func putSeq(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
