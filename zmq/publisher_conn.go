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
	// heartbeatEvery is the silence after which a peer is sent a PING, and the time for its
	// PONG. TCP's keepalive finds a machine that is gone; this finds a proxy that keeps the
	// connection of a publisher that is gone.
	heartbeatEvery = 15 * time.Second
	// maxPingContext bounds the bytes that a PING carries and the PONG returns (ZMTP 3.1).
	maxPingContext = 16
)

// errHungUp means that a publisher closed its connection, mostly because its process ended.
var errHungUp = errors.New("zmq: the publisher hung up")

// publisherConn is one connection to a publisher. Its reads never block; Go's poller waits.
type publisherConn struct {
	f     *subscriber
	conn  net.Conn
	d     decoder
	minor byte // Of the version that both speak.

	got   int // Bytes of the last read.
	errno syscall.Errno
	fault error // Of a delivery while the poller's lock was held.
	due   bool  // A deadline has passed: the next read that empties the socket returns.
	idle  bool  // It has returned.

	heard  bool      // Bytes have arrived since the last heartbeat.
	asked  bool      // The last heartbeat sent a PING.
	beatAt time.Time // Of the next heartbeat.
}

// serve delivers conn's messages until the connection ends.
func (f *subscriber) serve(conn net.Conn) error {
	release := closeWhenDone(f.ctx, conn)
	defer release()
	p := &publisherConn{f: f, conn: conn}
	defer p.d.free()
	var err error
	if p.minor, err = subscribe(conn, &p.d, f.Topic, time.Now()); err != nil {
		return err
	}
	f.connected()
	p.beatAt = time.Now().Add(heartbeatEvery)
	return p.read()
}

// read delivers messages until the connection ends.
func (p *publisherConn) read() error {
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
			// The deadline counts only once the socket is empty.
			p.due, err = true, p.conn.SetReadDeadline(time.Time{})
		case err != nil:
		case p.fault != nil:
			err = p.fault
		case p.idle:
			p.idle = false
			err = p.onDeadline()
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

// tryRead empties the socket and reports false once it is empty: then Go's poller waits. After
// a short read it reads again, because the stream's end may have come with those bytes, and the
// poller reports both only once. Bytes that arrive meanwhile are an event that the poller keeps
// while tryRead runs; it would lose the event between two calls of RawConn.Read, so tryRead
// delivers messages itself.
func (p *publisherConn) tryRead(fd uintptr) bool {
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

// take delivers the bytes of the last read.
func (p *publisherConn) take() error {
	full := p.got == len(p.d.buf)-p.d.w
	p.d.w += p.got
	p.heard = true
	if err := p.deliver(); err != nil {
		return err
	}
	if full { // More bytes wait. A request that waits for this processor goes first.
		runtime.Gosched()
	}
	return nil
}

// deliver calls back for all complete messages.
func (p *publisherConn) deliver() error {
	f := p.f
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

// command handles a peer's command. Commands that do not concern a subscriber are ignored.
func (p *publisherConn) command(b []byte) error {
	if reason, ok := bytes.CutPrefix(b, []byte(errorCommand)); ok {
		return refusal(reason)
	}
	ping, ok, err := pingContext(b)
	if !ok || err != nil {
		return err
	}
	return p.send(pongCommand, string(ping))
}

// pingContext returns the bytes that the PONG to a PING must carry. ok is false for other
// commands.
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

// send sends a command. A peer that does not accept so few bytes in handshakeTimeout is stuck.
func (p *publisherConn) send(parts ...string) error {
	if err := p.conn.SetWriteDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return err
	}
	_, err := p.conn.Write(appendFrame(nil, flagCommand, parts...))
	return err
}

// onDeadline runs when a deadline has passed and the socket is empty.
func (p *publisherConn) onDeadline() error {
	p.f.tick()
	if err := p.beat(time.Now()); err != nil {
		return err
	}
	return p.arm()
}

// beat sends a PING to a silent peer, and fails if the last one was not answered. ZMTP 3.0 has
// no PING.
func (p *publisherConn) beat(now time.Time) error {
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
		return p.send(pingCommand, "\x00\x00") // TTL 0: the peer must not time us out.
	}
}

// arm sets the deadline for the next tick or heartbeat.
func (p *publisherConn) arm() error {
	var at time.Time
	if p.minor >= minorCommand {
		at = p.beatAt
	}
	if tick := p.f.tickAt; p.f.OnTick != nil && (at.IsZero() || tick.Before(at)) {
		at = tick
	}
	return p.conn.SetReadDeadline(at)
}
