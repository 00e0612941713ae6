package upstream

import (
	"errors"
	"fmt"
	"io"

	"github.com/valyala/fasthttp"
)

type bodyKind uint8

const (
	bodyFixed   bodyKind = iota // left bytes follow
	bodyChunked                 // chunked coding
	bodyToEnd                   // up to the end of the connection
)

// Response is the answer to one request; its header is complete, its body comes by Read (or through Forward). Close it
// exactly once; it must not be touched afterwards.
type Response struct {
	Status int
	Header fasthttp.ResponseHeader // as the worker sent it

	t      *Transport
	c      *Canceler
	cn     *conn // nil once the body has ended or failed
	body   bodyKind
	keep   bool  // the connection may serve another request after this body
	left   int64 // bodyFixed: bytes to come
	chunks chunkDecoder
	err    error  // how the body ended: io.EOF, or what went wrong
	ahead  []byte // given back by Unread
	stream Stream
	gzip   *Compressors // the client's answer is compressed by it; nil: it is not
	events events       // whether and how the body is cut
	change Rewriter     // of the body on its way to the client; nil: it goes as it is
}

// acquire readies a Response.
func (t *Transport) acquire(c *Canceler, cn *conn) *Response {
	r, ok := t.responses.Get().(*Response)
	if !ok {
		r = &Response{t: t}
		// A body without a type stays one: fasthttp would add text/plain.
		r.Header.SetNoDefaultContentType(true)
	}
	r.c, r.cn, r.err = c, cn, nil
	return r
}

func (t *Transport) release(r *Response) {
	r.c, r.cn, r.ahead, r.gzip, r.change = nil, nil, nil, nil, nil
	r.stream = Stream{}
	r.events.reset()
	t.responses.Put(r)
}

// ContentLength returns the length of the body, -1 if only its end will tell.
func (r *Response) ContentLength() int64 {
	if r.body == bodyFixed {
		return r.left + int64(len(r.ahead))
	}
	return -1
}

// Read returns body bytes as soon as there are any, without the transfer coding. At the end of the body it returns io.EOF,
// and the connection is already free for the next request. A failure is final.
func (r *Response) Read(p []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if r.body == bodyChunked {
		return r.readChunked(p)
	}
	if r.ended() {
		return 0, r.finish(io.EOF)
	}
	if r.body == bodyFixed {
		p = p[:min(int64(len(p)), r.left)]
	}
	n, err := r.read(p)
	r.left -= int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, r.fail(err)
}

// read reads from the connection. What is longer than the read buffer comes past it: a system call and a copy more for each piece of the
// buffer's size is most of what reading a list of 16,000 ids would cost. The last byte comes by the buffer, in which what does not belong to
// the body shows.
func (r *Response) read(p []byte) (int, error) {
	if len(p) > r.t.cfg.ReadBuffer && r.cn.buffered() == 0 {
		return r.cn.Read(p[:len(p)-1])
	}
	if err := r.cn.fill(); err != nil {
		return 0, err
	}
	return r.cn.br.Read(p)
}

// Unread gives back bytes that Read has returned: whoever reads on gets them first. There may be one piece of them at a
// time, and p must stay as it is until it was read again.
func (r *Response) Unread(p []byte) { r.ahead = p }

func (r *Response) readChunked(p []byte) (int, error) {
	for {
		if r.ended() {
			return 0, r.finish(io.EOF)
		}
		src, err := r.peek()
		if err != nil {
			return 0, r.fail(err)
		}
		nd, ns, err := r.chunks.decode(p, src)
		_, _ = r.cn.br.Discard(ns) // ns are buffered
		if nd > 0 {
			// An error after good bytes is found again by the next call: the decoder stands before the bad byte.
			return nd, nil
		}
		if err != nil {
			return 0, r.finish(fmt.Errorf("%w: %w", ErrBadResponse, err))
		}
	}
}

// next returns the next body bytes in place of copying them; they alias the read buffer until the next call or Close.
// Chunks that lie together in the buffer come as one piece.
func (r *Response) next() ([]byte, error) {
	if p := r.ahead; len(p) > 0 {
		r.ahead = nil
		return p, nil
	}
	for {
		if r.err != nil {
			return nil, r.err
		}
		if r.ended() {
			return nil, r.finish(io.EOF)
		}
		src, err := r.peek()
		if err != nil {
			return nil, r.fail(err)
		}
		switch r.body {
		case bodyFixed:
			src = src[:min(int64(len(src)), r.left)]
			r.left -= int64(len(src))
			_, _ = r.cn.br.Discard(len(src))
			return src, nil
		case bodyToEnd:
			_, _ = r.cn.br.Discard(len(src))
			return src, nil
		}
		nd, ns, err := r.chunks.decode(src, src)
		_, _ = r.cn.br.Discard(ns)
		if nd > 0 {
			return src[:nd], nil
		}
		if err != nil {
			return nil, r.finish(fmt.Errorf("%w: %w", ErrBadResponse, err))
		}
	}
}

// peek returns what is in the read buffer, and waits for one byte if there is none.
func (r *Response) peek() ([]byte, error) {
	if err := r.cn.fill(); err != nil {
		return nil, err
	}
	return r.cn.br.Peek(r.cn.br.Buffered())
}

// ready tells whether next can return without waiting for the network.
func (r *Response) ready() bool {
	return len(r.ahead) > 0 || r.err != nil || r.ended() || r.cn.buffered() > 0
}

// ended tells whether the body is complete.
func (r *Response) ended() bool {
	if len(r.ahead) > 0 {
		return false
	}
	switch r.body {
	case bodyFixed:
		return r.left == 0
	case bodyChunked:
		return r.chunks.done()
	}
	return false
}

// fail ends the body after a failed read.
func (r *Response) fail(cause error) error {
	if r.body == bodyToEnd && errors.Is(cause, io.EOF) {
		return r.finish(io.EOF)
	}
	return r.finish(readError(cause, ErrTruncated))
}

// finish lets go of the connection: back to the idle ones if it is clean, closed otherwise. It returns how the body ended.
func (r *Response) finish(err error) error {
	cn := r.cn
	r.cn = nil
	clean := err == io.EOF && r.keep && cn.buffered() == 0 //nolint:errorlint // Our own value, never wrapped.
	if !clean {
		cn.abort() // Wakes the writer.
	}
	sent := cn.finishSend()
	canceled := r.c.unbind()
	if canceled && err != io.EOF { //nolint:errorlint // As above.
		err = ErrCanceled
	}
	if clean && sent && !canceled {
		r.t.keep(cn)
	} else {
		r.t.discard(cn)
	}
	r.err = err
	return err
}

// errUnread is how a body ends that its owner closed before its end.
var errUnread = errors.New("proxy: closed before the end of the body")

// Close ends the answer. A body that was read to its end (even if the caller did not ask for the io.EOF behind it) leaves
// its connection for reuse; otherwise the connection is closed, which is how a worker learns that nobody listens.
func (r *Response) Close() error {
	r.ahead = nil
	if r.cn != nil {
		r.finishEarly()
	}
	r.t.release(r)
	return nil
}

// finishEarly looks whether the terminating chunk is all that is left, and has arrived.
func (r *Response) finishEarly() {
	if r.body == bodyChunked && !r.ended() && r.cn.buffered() > 0 {
		if src, err := r.peek(); err == nil {
			_, ns, _ := r.chunks.decode(nil, src)
			_, _ = r.cn.br.Discard(ns)
		}
	}
	if r.ended() {
		_ = r.finish(io.EOF)
		return
	}
	_ = r.finish(errUnread)
}

// Peek returns the value of a field of the answer's header, nil where there is none.
func (r *Response) Peek(name string) []byte { return r.Header.Peek(name) }
