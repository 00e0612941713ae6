package upstream

import (
	"errors"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// relayLook is how often a stream that goes on is looked at: for its time limit, and for a
// reset of its connection. A reset that comes together with the last bytes is not told again.
const relayLook = time.Second

// relay moves a stream from a worker's socket to a client's, within one wait of the poller:
// each piece takes one read and one write. The poller keeps no readiness from one wait to the next,
// so each wait has to begin with a read, which nearly always finds nothing. That read and the other
// work for a wait are a tenth of a stream's cost.
type relay struct {
	in    *responseReader
	inbox socket.Inbox
	fn    func(fd uintptr) bool // try, made once

	s     *Stream // the one that passes
	to    *socket.Conn
	room  *socket.Buffer // holds rest; nil: there is none
	rest  []byte         // bytes that the client's socket did not take
	n     int64          // bytes of the body
	again bool           // there is more to read
	err   error          // of the client's side
	heard time.Time      // when the worker was last found to have sent something
	got   int64          // in.got, then
}

// canRelay reports whether the stream is one of chunks, without TLS on either side, of which
// nothing is here yet.
func canRelay(s *Stream) bool {
	r := s.resp
	return r.body == bodyChunked && !r.ready() && r.cn.in.raw != nil && s.to != nil && len(r.events.tail) == 0 && s.to.Socket() != nil
}

// relayStream sends pieces to the client as they come, up to one that is not like the others,
// which it leaves to Response.next. An error is the worker's, as a read has it, or the
// client's.
func relayStream(s *Stream) (n int64, worker, client error) {
	cn := s.resp.cn
	if cn.relay == nil {
		cn.relay = &relay{in: &cn.in}
		cn.relay.fn = cn.relay.try
		_ = cn.raw.Control(cn.relay.inbox.Ask)
	}
	l := cn.relay
	l.s, l.to, l.again, l.heard, l.got = s, s.to.Socket(), true, time.Now(), cn.in.got
	for l.again && worker == nil && l.err == nil {
		l.again = false
		if worker = l.wait(); len(l.rest) > 0 {
			_, l.err = s.to.Write(l.rest)
		}
		if l.room != nil {
			l.room.Release()
			l.room, l.rest = nil, nil
		}
	}
	n, client = l.n, l.err
	l.s, l.to, l.n, l.again, l.err = nil, nil, 0, false, nil
	return n, worker, client
}

// wait waits for as long as pieces come that the client takes at once.
func (l *relay) wait() error {
	in := l.in
	// The stream's time limit becomes an eighth too long at most.
	every := relayLook
	if in.wait > 0 {
		every = min(every, in.wait/16)
	}
	if err := in.armWithin(time.Now(), every); err != nil {
		return err
	}
	in.release()
	in.fillErr = nil
	err := in.raw.Read(l.fn)
	if !timedOut(err) {
		if err == nil {
			err = in.fillErr
		}
		return err
	}
	now := time.Now()
	switch {
	case l.got != in.got:
		l.heard, l.got = now, in.got
	case in.wait > 0 && now.Sub(l.heard) >= in.wait:
		_, err = in.note(0, err)
		return err
	}
	l.again = true
	return nil
}

// try takes one piece, and waits for the next where nothing is left to read.
func (l *relay) try(fd uintptr) bool {
	room := socket.TakeBuffer()
	n, err := l.inbox.Receive(fd, room[relayHead:relayHead+relayMax])
	if errors.Is(err, unix.EAGAIN) {
		room.Release()
		return false
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	n, l.in.fillErr = l.in.note(n, err)
	goes := err == nil && l.take(room, n)
	if l.room == nil {
		room.Release()
	}
	if goes && l.inbox.Left {
		l.again, goes = true, false // outside: a close must not wait for the worker to pause
	}
	return !goes
}

// take sends the n bytes of room behind relayHead. It reports whether all of them are on their
// way.
func (l *relay) take(room *socket.Buffer, n int) bool {
	r, src := l.s.resp, room[relayHead:relayHead+n]
	// Fast path: an event is written as one chunk, nearly always comes as one, and goes
	// unchanged.
	body := r.chunks.whole(src)
	if body != nil && (!r.events.on || r.events.endsEvent(body)) {
		r.events.open = false
		l.n += int64(len(body))
		if l.s.obs.Body(body); r.events.drop {
			return true
		}
		l.push(room, src)
		l.again = len(l.rest) > 0
		return !l.again && l.err == nil
	}
	if body != nil {
		return l.pass(room, copy(src, body), true)
	}
	n, used, err := r.chunks.decode(src, src)
	if used < len(src) {
		l.in.hand(src[used:]) // it follows the end of the answer, or breaks it
	}
	return l.pass(room, n, err == nil && !r.ended())
}

// pass sends as much of the n bytes behind relayHead as is not held back. more says that more
// is to come.
func (l *relay) pass(room *socket.Buffer, n int, more bool) bool {
	if n == 0 {
		return more
	}
	p := room[relayHead : relayHead+n]
	l.n += int64(n)
	l.s.obs.Body(p)
	v := &l.s.resp.events
	if n = len(v.pass(p)); n > 0 { // they are p's own: canRelay has seen that nothing was held back
		l.send(room, n)
	}
	l.again = more && len(l.rest) > 0
	return more && len(l.rest) == 0 && l.err == nil && len(v.tail) == 0
}

const (
	relayHead = len("3fff\r\n")
	relayMax  = len(socket.Buffer{}) - relayHead - len("\r\n") // bytes of a piece
)

// send makes a chunk of the n bytes behind relayHead, and sends as much of it as the client's
// socket takes.
func (l *relay) send(room *socket.Buffer, n int) {
	var digits [4]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	begin, end := relayHead-len("\r\n")-len(size), relayHead+n
	copy(room[begin:], size)
	copy(room[relayHead-len("\r\n"):], "\r\n")
	copy(room[end:], "\r\n")
	chunk := room[begin : end+len("\r\n")]
	if n <= maxHeld && l.s.resp.ended() {
		l.s.to.Hold() // the end is here: one write does
		_, l.err = l.s.to.Write(chunk)
		return
	}
	l.push(room, chunk)
}

// push sends as much of p, which is in room, as the client's socket takes.
func (l *relay) push(room *socket.Buffer, p []byte) {
	sent, err := l.to.WriteSome(p)
	if l.err = err; err == nil && sent < len(p) {
		l.room, l.rest = room, p[sent:]
	}
}
