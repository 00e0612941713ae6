package zmq

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// heartbeatEvery is how long a peer may be silent until it is asked for a PONG, and then again until it is given up.
	// Keepalive finds a machine that is gone; this finds a proxy that keeps the connection of a publisher that is gone.
	heartbeatEvery = 15 * time.Second
	// maxPingContext is the longest that a PING may carry, to be sent back.
	maxPingContext = 16
)

// errHungUp is a publisher that closed its connection: it ended, mostly.
var errHungUp = errors.New("zmq: the publisher hung up")

// peer is one connection to a publisher. It reads by calls that never wait; Go's poller does the waiting.
type peer struct {
	f     *follower
	conn  net.Conn
	d     decoder
	minor byte // of the version that both speak

	got   int // by the last read
	errno syscall.Errno
	fault error // of what was delivered while the poller's lock was held
	due   bool  // a deadline has passed: the next read that leaves nothing returns
	idle  bool  // it did

	heard  bool      // something came since the last beat
	asked  bool      // for a PONG, at the last beat
	beatAt time.Time // of the next beat
}

// serve follows conn until it ends.
func (f *follower) serve(conn net.Conn) error {
	release := closeWhenDone(f.ctx, conn)
	defer release()
	p := &peer{f: f, conn: conn}
	defer p.d.free()
	var err error
	if p.minor, err = subscribe(conn, &p.d, f.Topic, time.Now()); err != nil {
		return err
	}
	f.connected()
	p.beatAt = time.Now().Add(heartbeatEvery)
	return p.read()
}

// read delivers what comes.
func (p *peer) read() error {
	raw, err := p.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	try := p.tryRead // Made once: each use of a method value is an allocation.
	if err := errors.Join(p.deliver(), p.arm()); err != nil {
		return err
	}
	for {
		err := raw.Read(try)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			// Whoever has more to read is not idle: the deadline counts when the socket is empty.
			p.due, err = true, p.conn.SetReadDeadline(time.Time{})
		case err != nil:
		case p.fault != nil:
			err = p.fault
		case p.idle:
			p.idle = false
			err = p.rest()
		case p.errno != 0:
			err = os.NewSyscallError("recvfrom", p.errno)
		case p.got == 0:
			err = errHungUp
		default:
			err = p.take()
		}
		if err != nil {
			return err
		}
	}
}

// tryRead reads what there is, and reports false where nothing is left: then Go's poller waits for more. A read that took less than it could is
// followed by another one: the end of the stream may have come with those bytes, and the poller tells of both but once. What comes since is an
// event for the poller, which it keeps while this runs. It would not between two calls of RawConn.Read, so what was read is delivered in here.
func (p *peer) tryRead(fd uintptr) bool {
	for {
		room := p.d.room()
		p.got, p.errno = receive(fd, room)
		switch {
		case p.errno == syscall.EINTR:
		case p.errno == syscall.EAGAIN:
			p.d.release()
			p.idle, p.due = p.due, false
			return p.idle
		case p.errno != 0, p.got == 0, p.got == len(room):
			return true
		default:
			if p.fault = p.take(); p.fault != nil {
				return true
			}
		}
	}
}

// take delivers what was read.
func (p *peer) take() error {
	full := p.got == len(p.d.buf)-p.d.w
	p.d.w += p.got
	p.heard = true
	if err := p.deliver(); err != nil {
		return err
	}
	if full { // There is more. A request that waits for this processor goes first.
		runtime.Gosched()
	}
	return nil
}

// deliver hands over what is whole.
func (p *peer) deliver() error {
	f := p.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.ctx.Err() == nil {
		it, err := p.d.next()
		switch it {
		case itemMessage:
			f.OnMessage(p.d.msg)
		case itemMalformed:
			if f.OnMalformed != nil {
				f.OnMalformed(p.d.malformed)
			}
		case itemCommand:
			err = p.command(p.d.command)
		case itemNone, itemFrame:
			return err
		}
		if err != nil {
			return err
		}
	}
	return f.ctx.Err()
}

// command answers a peer's; those that do not concern a subscriber are none of its business.
func (p *peer) command(b []byte) error {
	if reason, ok := bytes.CutPrefix(b, []byte(errorCommand)); ok {
		return refusal(reason)
	}
	ping, ok, err := pingContext(b)
	if !ok || err != nil {
		return err
	}
	return p.send(pongCommand, string(ping))
}

// pingContext returns the bytes that the PONG to a PING must carry. ok is false for other commands.
func pingContext(command []byte) (context []byte, ok bool, err error) {
	ping, ok := bytes.CutPrefix(command, []byte(pingCommand))
	if !ok {
		return nil, false, nil
	}
	const ttl = 2 // Bytes: the time that the peer suggests to wait for its next sign of life.
	if len(ping) < ttl || len(ping) > ttl+maxPingContext {
		return nil, true, fmt.Errorf("%w: a PING of %d bytes", ErrProtocol, len(ping))
	}
	return ping[ttl:], true, nil
}

// send sends a command. A peer that does not take so little is stuck.
func (p *peer) send(parts ...string) error {
	if err := p.conn.SetWriteDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	_, err := p.conn.Write(appendFrame(nil, flagCommand, parts...))
	return err
}

// rest is for a deadline that passed and a socket without more to read.
func (p *peer) rest() error {
	if !p.f.Bind {
		p.f.tick()
	}
	if err := p.beat(time.Now()); err != nil {
		return err
	}
	return p.arm()
}

// beat asks a peer that was silent for a PONG, or gives it up. ZMTP 3.0 has no PING.
func (p *peer) beat(now time.Time) error {
	if p.minor < minorCommand || now.Before(p.beatAt) {
		return nil
	}
	p.beatAt = now.Add(heartbeatEvery)
	switch {
	case p.heard:
		p.heard, p.asked = false, false
		return nil
	case p.asked:
		return fmt.Errorf("%w: the peer is silent and answers no PING for %v", ErrProtocol, heartbeatEvery)
	default:
		p.asked = true
		return p.send(pingCommand, "\x00\x00") // No time to live: our silence from here means nothing.
	}
}

// arm sets the deadline for what comes first, a tick or a heartbeat.
func (p *peer) arm() error {
	var at time.Time
	if p.minor >= minorCommand {
		at = p.beatAt
	}
	if tick := p.f.tickAt; p.f.OnTick != nil && !p.f.Bind && (at.IsZero() || tick.Before(at)) {
		at = tick
	}
	return p.conn.SetReadDeadline(at)
}
