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

// Response is the answer to one request. Its header is complete; its body comes by Read or
// through Forward. Close it exactly once; it must not be used afterwards.
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
	err    error  // the end of the body: io.EOF, or a failure
	ahead  []byte // given back by Unread
	stream Stream
	events events   // the cuts between events
	change Rewriter // of the body on its way to the client; nil: it passes unchanged
}

// Peek returns the value of a field of the header, nil where there is none.
func (r *Response) Peek(name string) []byte {
	switch name { // fasthttp has these apart, and would spell the name anew to find them
	case fasthttp.HeaderContentType:
		return r.Header.ContentType()
	case fasthttp.HeaderContentEncoding:
		return r.Header.ContentEncoding()
	}
	return r.Header.PeekCanonical([]byte(name))
}

// ContentLength returns the length of the body, -1 if only its end will tell.
func (r *Response) ContentLength() int64 {
	if r.body == bodyFixed {
		return r.left + int64(len(r.ahead))
	}
	return -1
}

// maxCopied is the longest whole answer that Forward copies, which frees its connection at
// once. With its header it fits fasthttp's buffer.
const maxCopied = 3 << 10

// Whole reports whether the answer is here as a whole and short. Forward then ends it, and
// tells the Observer so, before it returns.
func (r *Response) Whole() bool {
	return r.body == bodyFixed && r.cn != nil && len(r.ahead) == 0 && r.left <= maxCopied && r.left <= int64(r.cn.in.buffered())
}

// WholeEvents has Forward and its like send a stream in whole events, and chunked, so that there is
// room for an error event of the Observer's, which never meets half of another one.
func (r *Response) WholeEvents() { r.events.on = true }

// WholeLines is WholeEvents for a stream of lines, each of which is an event.
func (r *Response) WholeLines() { r.events.on, r.events.lines = true, true }

// DropRest keeps the rest of a stream in whole events from the client, from the piece on that the
// Observer sees: its Ended has the last word.
func (r *Response) DropRest() { r.events.drop = true }

// Read returns body bytes as soon as there are any, without the transfer coding. At the end of
// the body it returns io.EOF, and the connection is already free for the next request. A
// failure is final.
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

// Unread gives back bytes that Read has returned: the next reader gets them first. There may be
// one piece of them at a time, and p must not change until it was read again.
func (r *Response) Unread(p []byte) { r.ahead = p }

// fail ends the body after a failed read.
func (r *Response) fail(cause error) error {
	if r.body == bodyToEnd && errors.Is(cause, io.EOF) {
		return r.finish(io.EOF)
	}
	return r.finish(readError(cause, ErrTruncated))
}

// finish gives the connection back: to the idle ones if it is clean, else it is closed. It
// returns the end of the body.
func (r *Response) finish(err error) error {
	cn := r.cn
	r.cn = nil
	clean := err == io.EOF && r.keep && cn.in.buffered() == 0 //nolint:errorlint // Our own value, never wrapped.
	if !clean {
		cn.abort() // Wakes the writer.
	}
	sent := cn.out.finish()
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

// errUnread is the end of a body that its owner closed before its end.
var errUnread = errors.New("upstream: closed before the end of the body")

// Close ends the answer. A body that was read to its end, with or without the io.EOF behind it,
// leaves its connection for reuse; otherwise the connection is closed, and the worker stops
// computing.
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
	if r.body == bodyChunked && !r.ended() && r.cn.in.buffered() > 0 {
		if src, err := r.peek(); err == nil {
			_, ns, _ := r.chunks.decode(nil, src)
			_, _ = r.cn.in.br.Discard(ns)
		}
	}
	if r.ended() {
		_ = r.finish(io.EOF)
		return
	}
	_ = r.finish(errUnread)
}

// badChunk ends the body at a broken chunk.
func (r *Response) badChunk(err error) error {
	return r.finish(fmt.Errorf("%w: %w", ErrBadResponse, err))
}
