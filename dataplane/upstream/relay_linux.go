package upstream

import (
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// relayLook is how often a stream is looked at that goes on: whether its time is over, and whether its connection was reset. A reset that
// comes together with the last bytes is not told again.
const relayLook = time.Second

// relay is a stream on its way from a worker's socket to a client's, within one wait of the poller: of each piece there is one read and one
// write. Between two waits the poller forgets what it was told, so that each of them has to begin with a read, which nearly always
// finds nothing; that, and all that is done for each wait, is a tenth of what a stream costs.
type relay struct {
	s     *Stream
	to    *socket
	room  *aheadBuffer // what rest is in; nil: there is none
	rest  []byte       // what the client's socket did not take
	n     int64        // bytes of the body
	again bool         // there is more to read
	err   error        // of the client's side
	heard time.Time    // when the worker was last found to have sent something
	got   int64        // conn.got, then
}

// relays tells whether the stream is one of chunks, without TLS on either side, of which nothing is here yet.
func (s *Stream) relays() bool {
	r := s.resp
	if r.body != bodyChunked || r.ready() || !r.cn.lends() || s.to == nil || s.to.holding || s.to.keep != nil || len(r.events.tail) > 0 {
		return false
	}
	_, ok := s.to.Conn.(*socket)
	return ok
}

// relay sends pieces to the client as they come, up to one that is not like the others, which it leaves to next. An error is the worker's,
// as a read has it, or the client's.
func (s *Stream) relay() (n int64, worker, client error) {
	cn := s.resp.cn
	if cn.relayFn == nil {
		cn.relayFn = cn.tryRelay
		_ = cn.raw.Control(cn.inbox.ask)
	}
	l := &cn.relay
	to, _ := s.to.Conn.(*socket)
	*l = relay{s: s, to: to, again: true, heard: time.Now(), got: cn.got}
	for l.again && worker == nil && l.err == nil {
		l.again = false
		if worker = cn.relayWait(); len(l.rest) > 0 {
			_, l.err = s.to.Write(l.rest)
		}
		if l.room != nil {
			aheadBuffers.Put(l.room)
			l.room, l.rest = nil, nil
		}
	}
	n, client = l.n, l.err
	*l = relay{}
	return n, worker, client
}

// relayWait waits for as long as pieces come that the client takes at once.
func (cn *conn) relayWait() error {
	l := &cn.relay
	if err := cn.relayArm(time.Now()); err != nil {
		return err
	}
	cn.releaseReader()
	cn.fillErr = nil
	err := cn.raw.Read(cn.relayFn)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		if err == nil {
			err = cn.fillErr
		}
		return err
	}
	now := time.Now()
	switch {
	case l.got != cn.got:
		l.heard, l.got = now, cn.got
	case cn.wait > 0 && now.Sub(l.heard) >= cn.wait:
		_, err = cn.note(0, err)
		return err
	}
	l.again = true
	return nil
}

// relayArm has the wait end when the stream is to be looked at, which makes the time limit an eighth too long at most.
func (cn *conn) relayArm(now time.Time) error {
	every := relayLook
	if cn.wait > 0 {
		every = min(every, cn.wait/16)
	}
	if left := cn.deadline.Sub(now); left > 0 && left <= every {
		return nil
	}
	cn.deadline = now.Add(every)
	return cn.nc.SetReadDeadline(cn.deadline)
}

// tryRelay takes one piece, and waits for the next where nothing is left to read.
func (cn *conn) tryRelay(fd uintptr) bool {
	l := &cn.relay
	room := takeBuffer()
	n, err := cn.inbox.receive(fd, room[relayHead:relayHead+relayMax])
	if errors.Is(err, unix.EAGAIN) {
		aheadBuffers.Put(room)
		return false
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	n, cn.fillErr = cn.note(n, err)
	goes := err == nil && l.take(room, n)
	if l.room == nil {
		aheadBuffers.Put(room)
	}
	if goes && cn.inbox.left {
		l.again, goes = true, false // Outside, so that whoever closes the connection need not wait for a worker to pause.
	}
	return !goes
}

// take sends what was read: n bytes of room, behind relayHead. It reports whether all of it is on its way.
func (l *relay) take(room *aheadBuffer, n int) bool {
	r, src := l.s.resp, room[relayHead:relayHead+n]
	// Fast path: an event is written as one chunk, and comes so nearly always. It goes as it came.
	body := r.chunks.whole(src)
	if body != nil && (!r.events.on || endsEvent(body)) {
		r.events.open = false
		l.n += int64(len(body))
		l.s.obs.Body(body)
		l.push(room, src)
		l.again = len(l.rest) > 0
		return !l.again && l.err == nil
	}
	if body != nil {
		return l.pass(room, copy(src, body), true)
	}
	n, used, err := r.chunks.decode(src, src)
	if used < len(src) {
		r.cn.hand(src[used:])
	}
	return l.pass(room, n, err == nil && !r.ended())
}

// pass sends what can be sent of the n bytes behind relayHead, the first that are not held back. all says that more is to come.
func (l *relay) pass(room *aheadBuffer, n int, all bool) bool {
	if n == 0 {
		return all
	}
	p := room[relayHead : relayHead+n]
	l.n += int64(n)
	l.s.obs.Body(p)
	v := &l.s.resp.events
	if n = len(v.pass(p)); n > 0 { // they are p's own: relays has seen that nothing was held back
		l.send(room, n)
	}
	l.again = all && len(l.rest) > 0
	return all && len(l.rest) == 0 && l.err == nil && len(v.tail) == 0
}

// hand puts into the read buffer what follows the end of an answer, or breaks it: as much as there is room for.
func (cn *conn) hand(p []byte) {
	cn.acquireReader()
	cn.handed = p
	_, _ = cn.br.Peek(1)
	cn.handed = nil
}

const (
	relayHead = len("3fff\r\n")
	relayMax  = len(aheadBuffer{}) - relayHead - len("\r\n") // bytes of a piece
)

// send makes a chunk of the n bytes behind relayHead, and sends as much of it as the client's socket takes.
func (l *relay) send(room *aheadBuffer, n int) {
	var digits [4]byte
	size := strconv.AppendUint(digits[:0], uint64(n), 16)
	begin, end := relayHead-len("\r\n")-len(size), relayHead+n
	copy(room[begin:], size)
	copy(room[relayHead-len("\r\n"):], "\r\n")
	copy(room[end:], "\r\n")
	chunk := room[begin : end+len("\r\n")]
	if n <= maxHeld && l.s.resp.ended() {
		l.s.to.hold() // the end is here: one write does
		_, l.err = l.s.to.Write(chunk)
		return
	}
	l.push(room, chunk)
}

// push sends as much of p, which is in room, as the client's socket takes.
func (l *relay) push(room *aheadBuffer, p []byte) {
	sent, err := l.to.writeSome(p)
	if l.err = err; err == nil && sent < len(p) {
		l.room, l.rest = room, p[sent:]
	}
}
