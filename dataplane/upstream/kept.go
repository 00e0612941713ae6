package upstream

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"
)

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
