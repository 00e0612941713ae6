package upstream

import (
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"
)

// Rewriter changes a body on its way to the client.
type Rewriter interface {
	// Append takes the next piece of the body and appends the bytes that can be sent to dst. It
	// keeps neither.
	Append(dst, p []byte) []byte
	// End appends the rest when the body has ended.
	End(dst []byte) []byte
}

// ForwardRewrite is Forward with the body changed, which makes its length unknown. The Observer
// sees it as it came. An answer that breaks off ends as Forward's does, without the Rewriter's
// rest.
func ForwardRewrite(ctx *fasthttp.RequestCtx, r *Response, obs Observer, now time.Time, change Rewriter) {
	r.change = change
	Forward(ctx, r, obs, now)
	ctx.Response.Header.Del(fasthttp.HeaderETag) // it named other bytes
	ctx.Response.Header.Del(fasthttp.HeaderAcceptRanges)
}

// writeChanged is Stream.WriteTo with a Rewriter.
func writeChanged(s *Stream, w io.Writer) (n int64, err error) {
	var out []byte
	for {
		p, err := s.resp.next()
		ended := errors.Is(err, io.EOF)
		switch {
		case err == nil:
			s.obs.Body(p)
			out = s.resp.change.Append(out[:0], p)
		case ended:
			out = s.resp.change.End(out[:0])
		default:
			return s.broken(w, n, err, false)
		}
		if send := s.resp.events.pass(out); len(send) > 0 {
			m, werr := w.Write(send)
			n += int64(m)
			if werr != nil {
				return n, s.clientFailed(werr)
			}
		}
		if ended {
			s.end()
			return s.rest(w, n)
		}
	}
}
