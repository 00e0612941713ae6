package load

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/warmpath/warmpath/bench/proxy/loop"
)

// client is a connection with at most one request under way.
type client struct {
	t    *thread
	conn *loop.Conn // nil while there is none
	at   *net.TCPAddr
	host string
	r    response
	buf  []byte // the request; it must stay until it is answered
	talk *talk

	ready     bool // the connection stands
	busy      bool
	due, sent int64
	first     int64 // byte of the body
	event     int64 // the last one
	seen      int   // events until then
}

// headRoom is for the head of a request, which is written before its body when that is known.
const headRoom = 256

// write makes the next request and begins to send it.
func (k *client) write(due int64) {
	t := k.t
	b := k.buf
	if cap(b) < headRoom {
		b = make([]byte, headRoom, headRoom+min(t.cfg.Size+1024, 1<<20))
	}
	b = b[:headRoom]
	if t.talks != nil {
		b, k.talk = t.talks.next(b)
	} else {
		b = t.writer.unique(b)
	}
	k.buf = b
	var room [headRoom]byte
	h := append(room[:0], "POST "...)
	h = append(h, t.cfg.API.path()...)
	h = append(h, " HTTP/1.1\r\nHost: "...)
	h = append(h, k.host...)
	h = append(h, "\r\nUser-Agent: warmpath-bench\r\nAccept: */*\r\nContent-Type: application/json\r\nContent-Length: "...)
	h = strconv.AppendInt(h, int64(len(b)-headRoom), 10)
	h = append(h, "\r\n\r\n"...)
	request := b[headRoom-copy(b[headRoom-len(h):], h):]

	k.r.reset()
	k.busy, k.due, k.first, k.event, k.seen = true, due, 0, 0, 0
	k.sent = t.loop.Now()
	if k.ready {
		if err := k.conn.Send(request); err != nil {
			k.drop()
			k.failed(err)
		}
		return
	}
	if k.conn == nil {
		if err := k.dial(); err != nil {
			k.failed(err)
			return
		}
	}
	if err := k.conn.Send(request); err != nil { // keeps it until the connection stands
		k.drop()
		k.failed(err)
	}
}

// dial begins to connect.
func (k *client) dial() (err error) {
	k.conn, err = k.t.loop.Dial(k.at, k)
	return err
}

func (k *client) drop() {
	if k.conn != nil {
		k.conn.Close()
	}
	k.conn, k.ready = nil, false
}

// Ready implements [loop.Handler].
func (k *client) Ready(*loop.Conn) {
	k.ready = true
	k.t.connected(nil)
}

// Closed implements [loop.Handler].
func (k *client) Closed(_ *loop.Conn, err error) {
	standing := k.ready
	k.conn, k.ready = nil, false
	switch {
	case !standing && !k.busy:
		k.t.connected(err)
	case !k.busy: // a server may close idle connections; the next request connects again
		if !k.t.over {
			k.t.result.Reconnects++
		}
	case k.r.closed():
		k.r.ended = true
		k.answered()
	case !standing:
		k.failed(fmt.Errorf("cannot connect: %w", err))
	case errors.Is(err, io.EOF):
		k.failed(errCut)
	default:
		k.failed(err)
	}
}

// Data implements [loop.Handler].
func (k *client) Data(_ *loop.Conn, b []byte) (used int) {
	if !k.busy {
		k.t.result.Errors[errExtra.Error()]++
		k.drop()
		return len(b)
	}
	used, err := k.r.feed(b)
	if err != nil {
		k.drop()
		k.failed(err)
		return len(b)
	}
	if k.first == 0 && k.r.begun() {
		k.first = k.t.loop.Now()
	}
	if k.r.head.Events && k.r.events > k.seen {
		k.events()
	}
	if k.r.ended {
		if k.r.head.Close {
			k.drop()
		}
		k.answered()
	}
	return used
}

// events takes the time between two arrivals of events.
func (k *client) events() {
	now := k.t.loop.Now()
	if k.seen > 0 && !k.r.ended {
		k.t.gap(now - k.event)
	}
	k.event, k.seen = now, k.r.events
}

// answered is for a complete answer.
func (k *client) answered() {
	var err error
	if k.r.status != statusOK {
		err = fmt.Errorf("status %d", k.r.status)
	} else {
		err = k.r.check(k.t.cfg.Stream, k.t.cfg.Tokens, k.t.want)
	}
	if err != nil {
		k.failed(err)
		return
	}
	if k.talk != nil {
		k.t.talks.answered(k.talk)
		k.talk = nil
	}
	k.busy = false
	k.t.done(k)
}

func (k *client) failed(err error) {
	if k.talk != nil {
		k.t.talks.failed(k.talk)
		k.talk = nil
	}
	k.busy = false
	k.t.fail(k, err)
}
