package zmq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"time"
)

// Subscription describes a stream and its callbacks. Callbacks run one at a time, and none
// begins after the context of Subscribe is done. Nothing is read while one runs: the publisher
// queues, and drops beyond its high-water mark.
type Subscription struct {
	Endpoint string // "tcp://host:port" or "ipc://path"; a name is resolved at each attempt.
	Topic    string // Prefix of the wanted topics, at most 245 bytes; "" is all.

	// OnMessage receives every message, which is valid until it returns.
	OnMessage func(Message)
	// OnMalformed, which may be nil, is called for a message that was dropped because it does
	// not have three frames, or its sequence not eight bytes.
	OnMalformed func(frames int)
	// OnConnect, which may be nil, is called when the subscription has been sent. Messages
	// published before the publisher reads it are missed.
	OnConnect func()
	// OnDisconnect, which may be nil, receives the reason why a connection ended or failed;
	// another attempt follows. The error wraps ErrProtocol if the peer is at fault. It is
	// called for each attempt, too often to be logged.
	OnDisconnect func(error)
	// OnTick, which may be nil, runs at intervals of Every, connected or not, but not while
	// messages wait.
	OnTick func()
	Every  time.Duration
	// Pace, which may be nil, returns the time until the next tick after each one, instead of
	// Every.
	Pace func() time.Duration
}

const (
	// wrongPeerMax is reconnectMax after ErrProtocol, which mostly lasts until an operator acts.
	wrongPeerMax = 5 * time.Second
	// stableAfter is the age at which the end of a connection resets the backoff.
	stableAfter = time.Second
)

// Subscribe delivers messages until ctx is done, and then returns nil: no goroutine, socket or
// buffer is left, and no callback runs. It reconnects whenever a connection ends, at first
// within 50 ms, later every 500 ms. It returns an error only for a subscription that can never
// work.
func Subscribe(ctx context.Context, s Subscription) error {
	network, address, err := parseEndpoint(s.Endpoint, false)
	switch {
	case err != nil:
		return fmt.Errorf("cannot subscribe: %w", err)
	case s.OnMessage == nil:
		return fmt.Errorf("cannot subscribe to %q: no OnMessage", s.Endpoint)
	case len(s.Topic) > maxTopic:
		return fmt.Errorf("cannot subscribe to %q: a topic of %d bytes; the limit is %d", s.Endpoint, len(s.Topic), maxTopic)
	}
	f := &subscriber{Subscription: s, ctx: ctx, tickAt: time.Now().Add(s.Every)}
	attempt := func() error { return f.attempt(network, address) }
	switch curve, err := Curve(); {
	case err != nil:
		return fmt.Errorf("cannot subscribe to %q: %w", s.Endpoint, err)
	case curve != "":
		attempt = func() error { return attemptCurve(f) }
	}
	f.follow(attempt)
	return nil
}

// subscriber is a running subscription.
type subscriber struct {
	Subscription
	ctx    context.Context
	tickAt time.Time // Of the next OnTick.
	since  time.Time // Begin of the current connection; zero before its handshake is complete.
}

// follow connects again and again.
func (f *subscriber) follow(attempt func() error) {
	for failures := 0; f.ctx.Err() == nil; failures++ {
		f.since = time.Time{}
		err := attempt()
		if !f.since.IsZero() && time.Since(f.since) > stableAfter {
			failures = 0
		}
		f.disconnected(err)
		f.pause(delay(failures, err))
	}
}

// attempt connects once and delivers messages until the connection ends.
func (f *subscriber) attempt(network, address string) error {
	dialer := net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepaliveConfig, Control: control}
	conn, err := dialer.DialContext(f.ctx, network, address)
	if err != nil {
		return err
	}
	return f.serve(conn)
}

// delay returns the time until the next attempt. Half of it is random, so that the streams of a
// thousand routers do not reconnect in step.
func delay(failures int, err error) time.Duration {
	longest := reconnectMax
	if errors.Is(err, ErrProtocol) {
		longest = wrongPeerMax
	}
	d := min(reconnectMin<<min(failures, 10), longest)
	return d/2 + rand.N(d/2)
}

// pause waits, and ticks.
func (f *subscriber) pause(d time.Duration) {
	if sleep(f.ctx, d); f.ctx.Err() == nil {
		f.tick()
	}
}

// tick runs OnTick if it is due.
func (f *subscriber) tick() {
	if f.OnTick == nil || time.Now().Before(f.tickAt) {
		return
	}
	if f.ctx.Err() == nil {
		f.OnTick()
		f.tickAt = time.Now().Add(f.untilTick())
	}
}

func (f *subscriber) untilTick() time.Duration {
	if f.Pace != nil {
		return f.Pace()
	}
	return f.Every
}

func (f *subscriber) connected() {
	f.since = time.Now()
	if f.OnConnect != nil && f.ctx.Err() == nil {
		f.OnConnect()
	}
}

func (f *subscriber) disconnected(err error) {
	if f.OnDisconnect != nil && f.ctx.Err() == nil {
		f.OnDisconnect(fmt.Errorf("cannot follow %q: %w", f.Endpoint, err))
	}
}

var keepaliveConfig = net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount}

// control prepares a socket before it connects.
func control(network, _ string, raw syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return limitUnacknowledged(raw, keepaliveIdle+keepaliveCount*keepaliveInterval)
}
