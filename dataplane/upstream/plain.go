package upstream

import (
	"errors"
	"io"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// errLast is how a connection ends after an answer that said so.
var errLast = errors.New("proxy: the last answer")

// Whose a connection is. A drain closes those that are nobody's.
const (
	turnTheirs int32 = iota // fasthttp's
	turnNobody              // waits for a request
	turnOurs                // a plain request is being answered
	turnLast                // the same, and the connection ends with the answer
	turnClosed
)

// ListenPlain is Listen with plain requests answered by p. The server must be one of fasthttp with ReduceMemoryUsage, which then asks a
// connection for one byte where a request may begin, and with ConnState set to NoteState: the requests in between are answered within that read.
func (w *Watcher) ListenPlain(ln net.Listener, p *Plain) net.Listener {
	l, _ := w.Listen(ln).(*watchedListener)
	l.plain, l.most = p, p.MaxClients
	return l
}

// NoteState is a fasthttp.Server's ConnState.
func NoteState(nc net.Conn, state fasthttp.ConnState) {
	if cl := ClientOf(nc); cl != nil {
		cl.between = state == fasthttp.StateNew || state == fasthttp.StateIdle
	}
}

// answerPlain answers requests for as long as they are plain. It returns nil where one begins that is not, whose bytes are in cl.ahead.
func (cl *Client) answerPlain() error {
	p := cl.l.plain
	cl.theirs = 0
	if !cl.turn.CompareAndSwap(turnTheirs, turnNobody) {
		return io.EOF
	}
	for {
		if len(cl.ahead) == 0 {
			if _, err := cl.receive(nil, true); err != nil {
				return err
			}
		}
		if !cl.turn.CompareAndSwap(turnNobody, turnOurs) {
			return io.EOF
		}
		cl.want = time.Time{}
		in := inbounds.Get().(*Inbound) //nolint:forcetypeassert // Nothing else is put there.
		plain, err := cl.nextPlain(in, p)
		switch {
		case err != nil:
			in.release()
			cl.refuse(p, err)
			cl.turn.Store(turnClosed)
			return io.EOF
		case !plain:
			in.release()
			cl.turn.Store(turnTheirs) // and fasthttp's to close
			return nil
		}
		in.cl = cl
		p.Serve(in)
		lives, now := in.finish(p.Closing), in.now
		in.release()
		if !lives || !cl.turn.CompareAndSwap(turnOurs, turnNobody) {
			cl.turn.Store(turnClosed)
			return io.EOF
		}
		if now.IsZero() {
			now = time.Now()
		}
		if err := cl.SetReadDeadline(now.Add(p.Idle)); err != nil {
			return err
		}
	}
}

// endTurn reports whose turn it was, and whether the connection can be closed now; else it ends with the answer that is being made.
func (cl *Client) endTurn() (turn int32, may bool) {
	for {
		turn = cl.turn.Load()
		if turn == turnLast {
			return turn, false
		}
		next := turnClosed
		if turn == turnOurs {
			next = turnLast
		}
		if cl.turn.CompareAndSwap(turn, next) {
			return turn, next == turnClosed
		}
	}
}

// nextPlain takes the request that begins in cl.ahead, and waits for what is missing of it. It returns false where the request is not plain:
// then it is in cl.ahead, whole.
func (cl *Client) nextPlain(in *Inbound, p *Plain) (plain bool, err error) {
	for {
		size := in.parse(cl.ahead, p)
		switch {
		case size == headOdd:
			return false, cl.awaitOdd(p)
		case size > 0 && in.chunked:
			return true, cl.readChunks(in, p)
		case size > len(cl.ahead):
			in.take(cl.ahead, size)
			return true, cl.readRest(in, size)
		case size > 0:
			in.take(cl.ahead[:size], size)
			cl.drop(size)
			return true, nil
		}
		// Its head is in pieces.
		if ok, err := cl.more(len(aheadBuffer{})); err != nil {
			return false, err
		} else if !ok {
			return false, cl.awaitOdd(p)
		}
	}
}

// more reads on, behind what was read ahead, unless that is size bytes. Room for the rest comes with the rest.
func (cl *Client) more(size int) (bool, error) {
	if cl.room != nil {
		n := copy(cl.room[:], cl.ahead)
		cl.ahead = cl.room[:n]
	}
	n := len(cl.ahead)
	if n >= size {
		return false, nil
	}
	if n == cap(cl.ahead) {
		cl.ahead = append(make([]byte, 0, max(min(2*n, size), roomFor(size, n))), cl.ahead...)
		if cl.room != nil {
			cl.l.spare.Put(cl.room)
			cl.room = nil
		}
	}
	m, err := cl.receive(cl.ahead[n:cap(cl.ahead)], false)
	cl.ahead = cl.ahead[:n+m]
	return true, err
}

// readRest reads what is missing of a request whose body is longer than what has come with its head.
func (cl *Client) readRest(in *Inbound, size int) error {
	cl.drop(len(cl.ahead))
	if err := cl.goOn(in); err != nil {
		return err
	}
	for n := len(in.buf); n < size; n = len(in.buf) {
		if n == cap(in.buf) {
			in.grow(size)
		}
		m, err := cl.receive(in.buf[n:min(size, cap(in.buf))], false)
		in.buf = in.buf[:n+m]
		if err != nil {
			return err
		}
	}
	return nil
}

// goOn tells a client that waits with its body that it is wanted.
func (cl *Client) goOn(in *Inbound) error {
	if !in.asks || len(in.buf) > in.head {
		return nil
	}
	in.asks = false
	_, err := cl.Write(continues)
	return err
}

var continues = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// refuse answers a request that cannot be read.
func (cl *Client) refuse(p *Plain, err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	ctx := contextOf(cl)
	p.Refuse(ctx, err)
	Linger(ctx)
	releaseContext(ctx)
}
