package upstream

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// Begin returns what is here of the body, after Await, without taking it: of several chunks the
// first. It aliases the read buffer, until the next call. It is empty where the body has ended.
func (r *Response) Begin() []byte {
	if len(r.ahead) > 0 {
		return r.ahead
	}
	if r.err != nil || r.cn == nil || r.ended() || r.cn.buffered() == 0 {
		return nil
	}
	b, _ := r.cn.br.Peek(r.cn.br.Buffered()) // they are buffered
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
		r.cn.wait = d
	}
}

// Kept is a whole answer.
type Kept struct {
	Status int
	header fasthttp.ResponseHeader
	body   []byte
}

// NewKept returns a copy of an answer with a type.
func NewKept(status int, mime, body []byte) *Kept {
	k := &Kept{Status: status, body: bytes.Clone(body)}
	k.header.SetNoDefaultContentType(true)
	k.header.SetContentTypeBytes(mime)
	return k
}

// Keep reads the answer to its end and returns a copy of it, or nil where it has more than limit
// bytes: then it can still be forwarded. An error is of the connection. The Response is still to be
// closed.
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
