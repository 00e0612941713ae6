package zmq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

// Subscription says what to listen to and who is told. The callbacks run one at a time, and none begins after the context
// of Subscribe is done. While one runs nothing is read: the publisher queues, and drops beyond its high-water mark.
type Subscription struct {
	Endpoint string // "tcp://host:port" or "ipc://path"; it need not answer yet. A name is looked up for each attempt.
	Topic    string // Prefix of the topics wanted, at most 245 bytes; "" wants all.
	Bind     bool   // Listen instead of connecting: for engines whose publisher connects.

	// OnMessage gets every message. The message is its until it returns.
	OnMessage func(Message)
	// OnMalformed, which may be nil, is told of a message that was dropped because it has not three frames or its
	// sequence not eight bytes.
	OnMalformed func(frames int)
	// OnConnect, which may be nil, is told that the publisher has been asked for the topic: what it publishes when it has
	// read that, within moments, will come. What it published before will not.
	OnConnect func()
	// OnDisconnect, which may be nil, is told why a connection has ended or could not be made; another attempt follows. The
	// error wraps ErrProtocol where the peer is at fault. It comes for each attempt, so a message in a log should not.
	OnDisconnect func(error)
	// OnTick, which may be nil, runs every so often, connected or not, but not while messages wait.
	OnTick func()
	Every  time.Duration
	// Pace, which may be nil, takes the place of Every: it is asked after each tick how long it is until the next one.
	Pace func() time.Duration
}

const (
	// strangerMax is reconnectMax for a peer that is not what it should be: that lasts, mostly, until someone acts.
	strangerMax = 5 * time.Second
	// steady is how long a connection must last for the next one to be tried at once.
	steady = time.Second
	// maxPeers bounds the publishers that connect to one subscription that binds; there is one, and its predecessor.
	maxPeers = 64
)

// Subscribe listens until ctx is done, and then returns nil: no goroutine, socket or buffer is left, and no callback runs.
// It connects again whenever a connection ends, the first time within 50 ms, then at most every 500 ms. An error says that
// the subscription itself is wrong.
func Subscribe(ctx context.Context, s Subscription) error {
	use := toConnect
	if s.Bind {
		use = toBind
	}
	network, address, err := parseEndpoint(s.Endpoint, use)
	switch {
	case err != nil:
		return fmt.Errorf("cannot subscribe: %w", err)
	case s.OnMessage == nil:
		return fmt.Errorf("cannot subscribe to %q: no OnMessage", s.Endpoint)
	case len(s.Topic) > maxTopic:
		return fmt.Errorf("cannot subscribe to %q: a topic of %d bytes, at most %d go", s.Endpoint, len(s.Topic), maxTopic)
	}
	f := &follower{Subscription: s, ctx: ctx, tickAt: time.Now().Add(s.Every)}
	attempt := func() error { return f.attempt(network, address) }
	switch curve, err := Curve(); {
	case err != nil:
		return fmt.Errorf("cannot subscribe to %q: %w", s.Endpoint, err)
	case curve != "" && s.Bind:
		return fmt.Errorf("cannot subscribe to %q: %w: a subscription that binds has none", s.Endpoint, ErrCurve)
	case curve != "":
		attempt = f.attemptCurve
	case s.Bind:
		return f.listen(network, address)
	}
	f.follow(attempt)
	return nil
}

// follower is a running subscription.
type follower struct {
	Subscription
	ctx    context.Context
	mu     sync.Mutex // held by callbacks: where publishers connect, there may be two
	tickAt time.Time  // of the next OnTick
	since  time.Time  // when the last connection stood; zero before
}

// follow connects again and again.
func (f *follower) follow(attempt func() error) {
	for failures := 0; f.ctx.Err() == nil; failures++ {
		f.since = time.Time{}
		err := attempt()
		if !f.since.IsZero() && time.Since(f.since) > steady {
			failures = 0
		}
		f.disconnected(err)
		f.pause(delay(failures, err))
	}
}

// attempt connects once and delivers messages until the connection ends.
func (f *follower) attempt(network, address string) error {
	dialer := net.Dialer{Timeout: connectTimeout, KeepAliveConfig: keepaliveConfig, Control: control}
	conn, err := dialer.DialContext(f.ctx, network, address)
	if err != nil {
		return err
	}
	return f.serve(conn)
}

// delay is what passes before the next attempt. Half of it is by chance, so that a thousand routers' streams do not come
// back in step.
func delay(failures int, err error) time.Duration {
	longest := reconnectMax
	if errors.Is(err, ErrProtocol) {
		longest = strangerMax
	}
	d := min(reconnectMin<<min(failures, 10), longest)
	return d/2 + rand.N(d/2)
}

// pause waits, and ticks.
func (f *follower) pause(d time.Duration) {
	if sleep(f.ctx, d); f.ctx.Err() == nil {
		f.tick()
	}
}

// tick runs OnTick where its time has come.
func (f *follower) tick() {
	if f.OnTick == nil || time.Now().Before(f.tickAt) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() == nil {
		f.OnTick()
		f.tickAt = time.Now().Add(f.untilTick())
	}
}

func (f *follower) untilTick() time.Duration {
	if f.Pace != nil {
		return f.Pace()
	}
	return f.Every
}

func (f *follower) connected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.since = time.Now()
	if f.OnConnect != nil && f.ctx.Err() == nil {
		f.OnConnect()
	}
}

func (f *follower) disconnected(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.OnDisconnect != nil && f.ctx.Err() == nil {
		f.OnDisconnect(fmt.Errorf("cannot follow %q: %w", f.Endpoint, err))
	}
}

// listen serves the publishers that connect.
func (f *follower) listen(network, address string) error {
	config := net.ListenConfig{KeepAliveConfig: keepaliveConfig, Control: control}
	l, err := bind(f.ctx, config, network, address)
	if err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	var ticks sync.WaitGroup
	if f.OnTick != nil {
		ticks.Go(func() {
			for f.ctx.Err() == nil {
				f.pause(time.Until(f.tickAt))
			}
		})
	}
	accept(f.ctx, l, maxPeers, func(conn net.Conn) { f.disconnected(f.serve(conn)) })
	ticks.Wait()
	return nil
}

var keepaliveConfig = net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount}

// control prepares a socket before it connects or listens.
func control(network, _ string, raw syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return boundAnswer(raw, keepaliveIdle+keepaliveCount*keepaliveInterval)
}
