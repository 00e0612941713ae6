package upstream

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
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
			if out = s.resp.change.End(out[:0]); len(out) <= maxWhole {
				s.hold()
			}
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

// Compressors keeps gzip writers, of some 800 KiB each. The zero value is ready.
type Compressors struct{ pool sync.Pool }

// compressor is a Rewriter that makes gzip of a body.
type compressor struct {
	zip  *gzip.Writer
	out  []byte // held back: header, blocks and checksum would each be a chunk
	pool *sync.Pool
}

// gzipBlock is the output that makes a chunk; with fasthttp's bytes it fits a socket.Buffer.
const gzipBlock = 8 << 10

func (c *Compressors) get() *compressor {
	z, ok := c.pool.Get().(*compressor)
	if !ok {
		// The next level takes twice the time for a tenth less.
		z = &compressor{pool: &c.pool}
		z.zip, _ = gzip.NewWriterLevel(z, gzip.BestSpeed)
	}
	return z
}

// release makes z available to other answers.
func (z *compressor) release() {
	z.out = z.out[:0]
	z.zip.Reset(z)
	z.pool.Put(z)
}

// Write takes the output of z.zip.
func (z *compressor) Write(p []byte) (int, error) {
	z.out = append(z.out, p...)
	return len(p), nil
}

// Append implements Rewriter.
func (z *compressor) Append(dst, p []byte) []byte {
	_, _ = z.zip.Write(p) // Write takes all
	if len(z.out) >= gzipBlock {
		dst = append(dst, z.out...)
		z.out = z.out[:0]
	}
	return dst
}

// End implements Rewriter.
func (z *compressor) End(dst []byte) []byte {
	_ = z.zip.Close()
	return append(dst, z.out...)
}

// AppendGzip appends p, compressed, to dst.
func (c *Compressors) AppendGzip(dst, p []byte) []byte {
	z := c.get()
	defer z.release()
	return z.End(z.Append(dst, p))
}

// ForwardGzip is ForwardRewrite with the body compressed. The caller has made sure that the client
// takes gzip and chunks, and that the body is neither compressed nor a stream of events: the
// Observer's Broken must be nil, for half of a compressed document is of no use to anyone.
func ForwardGzip(ctx *fasthttp.RequestCtx, r *Response, obs Observer, now time.Time, c *Compressors) {
	if r.ContentLength() == 0 {
		Forward(ctx, r, obs, now)
		return
	}
	ForwardRewrite(ctx, r, obs, now, c.get())
	h := &ctx.Response.Header
	h.Set(fasthttp.HeaderContentEncoding, "gzip")
	h.Add(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	// The header goes alone where the rest of the body may still fail: its client would get no
	// answer else, and the compressor may keep all of it for long.
	ctx.Response.ImmediateHeaderFlush = r.err == nil
}
