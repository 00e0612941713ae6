package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// Await waits until a byte of the body is there, or its end. A streaming worker sends its
// header long before it has computed anything: a caller that waits here before it answers the
// client can still ask another worker.
func (r *Response) Await() error {
	if len(r.ahead) > 0 || r.err != nil || r.ended() {
		return nil //nolint:nilerr // r.err is the end of the body, which Read tells.
	}
	for {
		src, err := r.peek()
		switch {
		case err != nil:
			if err = r.fail(err); errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("cannot get first byte of the body: %w", err)
		case r.body != bodyChunked:
			return nil
		}
		// The line before a chunk is not of the body, and may be the last.
		_, ns, err := r.chunks.decode(nil, src)
		_, _ = r.cn.in.br.Discard(ns)
		switch {
		case err != nil:
			return fmt.Errorf("cannot get first byte of the body: %w", r.badChunk(err))
		case ns < len(src) || r.ended():
			return nil
		}
	}
}

// Begin returns the bytes of the body that are here after Await, of several chunks the first's,
// without taking them. They alias the read buffer until the next call. There are none where the
// body has ended.
func (r *Response) Begin() []byte {
	if len(r.ahead) > 0 {
		return r.ahead
	}
	if r.err != nil || r.cn == nil || r.ended() || r.cn.in.buffered() == 0 {
		return nil
	}
	b, _ := r.cn.in.br.Peek(r.cn.in.buffered()) // they are buffered
	switch {
	case r.body == bodyFixed:
		return b[:min(int64(len(b)), r.left)]
	case r.body == bodyToEnd:
		return b
	case r.chunks.state == chunkData:
		return b[:min(int64(len(b)), r.chunks.left)]
	}
	return nil
}

// Within bounds each wait for the body from now on; 0 is forever.
func (r *Response) Within(d time.Duration) {
	if r.cn != nil {
		r.cn.in.wait = d
	}
}

// Keep reads the answer to its end and returns a copy of it, or nil where it has more than
// limit bytes: it can still be forwarded then. An error is the connection's. The Response is
// still to be closed.
func (r *Response) Keep(limit int) (*Kept, error) {
	if r.ContentLength() > int64(limit) {
		return nil, nil //nolint:nilnil // As documented: it is too long.
	}
	body := make([]byte, 0, 512)
	for {
		body = slices.Grow(body, 512)
		n, err := r.Read(body[len(body):min(cap(body), limit+1)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			k := &Kept{Status: r.Status, body: body}
			r.Header.CopyTo(&k.header)
			return k, nil
		case err != nil:
			return nil, err
		case len(body) > limit:
			r.Unread(body)
			return nil, nil //nolint:nilnil // As above.
		}
	}
}

// read reads from the connection. Pieces longer than the read buffer bypass it: a system call
// and a copy more for each buffer would be most of the cost of a list of 16,000 ids. The last
// byte comes by the buffer, where bytes behind the body show.
func (r *Response) read(p []byte) (int, error) {
	if len(p) > r.t.cfg.ReadBuffer && r.cn.in.buffered() == 0 {
		return r.cn.in.Read(p[:len(p)-1])
	}
	if err := r.cn.in.fill(); err != nil {
		return 0, err
	}
	return r.cn.in.br.Read(p)
}

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
		_, _ = r.cn.in.br.Discard(ns) // ns are buffered
		if nd > 0 {
			// An error after good bytes is found again by the next call: the decoder stands
			// before the bad byte.
			return nd, nil
		}
		if err != nil {
			return 0, r.badChunk(err)
		}
	}
}

// next returns the next body bytes without a copy; they alias the read buffer until the next
// call or Close. Chunks that lie together in the buffer come as one piece.
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
			_, _ = r.cn.in.br.Discard(len(src))
			return src, nil
		case bodyToEnd:
			_, _ = r.cn.in.br.Discard(len(src))
			return src, nil
		}
		nd, ns, err := r.chunks.decode(src, src)
		_, _ = r.cn.in.br.Discard(ns)
		if nd > 0 {
			return src[:nd], nil
		}
		if err != nil {
			return nil, r.badChunk(err)
		}
	}
}

// peek returns the bytes in the read buffer, and waits for one if there is none.
func (r *Response) peek() ([]byte, error) {
	if err := r.cn.in.fill(); err != nil {
		return nil, err
	}
	return r.cn.in.br.Peek(r.cn.in.buffered())
}

// ready reports whether next can return without waiting for the network.
func (r *Response) ready() bool {
	return len(r.ahead) > 0 || r.err != nil || r.ended() || r.cn.in.buffered() > 0
}

// ended reports whether the body is complete.
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

// Kept is a copy of a whole answer.
type Kept struct {
	Status int
	header fasthttp.ResponseHeader
	body   []byte
}

// KeepAs returns a copy of the answer's header with body, which was read from it.
func (r *Response) KeepAs(body []byte) *Kept {
	k := &Kept{Status: r.Status, body: bytes.Clone(body)}
	r.Header.CopyTo(&k.header)
	return k
}

// RetryAfter returns the seconds that the answer asks to wait, or -1.
func (k *Kept) RetryAfter() int {
	n, err := strconv.Atoi(string(k.header.Peek(fasthttp.HeaderRetryAfter)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Answer makes k the answer to ctx.
func (k *Kept) Answer(ctx *fasthttp.RequestCtx) {
	out := &ctx.Response
	out.ResetBody()
	dropHopByHop(&k.header)
	k.header.CopyTo(&out.Header)
	out.Header.SetStatusCode(k.Status)
	out.Header.SetProtocol(protocol)
	out.Header.ResetConnectionClose()
	_ = out.Header.SetTrailer("")
	out.SetBody(k.body)
}
