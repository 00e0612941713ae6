package upstream

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/valyala/fasthttp"
)

// Compressors keeps gzip writers, of some 800 KiB each. The zero value is ready.
type Compressors struct{ pool sync.Pool }

// compressor is a gzip writer and a buffer for its output: header, blocks and checksum would
// each be a chunk.
type compressor struct {
	zip *gzip.Writer
	out *bufio.Writer
}

// gzipBlock is the output that makes a chunk; with fasthttp's bytes it fits a socket.Buffer.
const gzipBlock = 8 << 10

func (c *Compressors) get(w io.Writer) *compressor {
	z, ok := c.pool.Get().(*compressor)
	if !ok {
		// The next level takes twice the time for a tenth less.
		zip, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		z = &compressor{zip, bufio.NewWriterSize(nil, gzipBlock)}
	}
	z.out.Reset(w)
	z.zip.Reset(z.out)
	return z
}

func (c *Compressors) put(z *compressor) {
	z.zip.Reset(nil)
	z.out.Reset(nil)
	c.pool.Put(z)
}

// AppendGzip appends p, compressed, to dst.
func (c *Compressors) AppendGzip(dst, p []byte) []byte {
	out := sliceWriter{dst}
	z := c.get(&out)
	_, _ = z.zip.Write(p) // a sliceWriter takes all
	_ = z.zip.Close()
	_ = z.out.Flush()
	c.put(z)
	return out.b
}

type sliceWriter struct{ b []byte }

// Write implements io.Writer.
func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// ForwardGzip is Forward with the body compressed, which makes its length unknown. The caller
// has made sure that the client takes gzip and chunks, and that the body is neither compressed
// nor a stream of events. The Observer sees it as it came.
func ForwardGzip(ctx *fasthttp.RequestCtx, r *Response, obs Observer, now time.Time, c *Compressors) {
	if r.ContentLength() == 0 {
		Forward(ctx, r, obs, now)
		return
	}
	r.gzip = c
	Forward(ctx, r, obs, now)
	h := &ctx.Response.Header
	h.Set(fasthttp.HeaderContentEncoding, "gzip")
	h.Add(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	h.Del(fasthttp.HeaderETag) // it named other bytes
	h.Del(fasthttp.HeaderAcceptRanges)
	// The header goes alone where the rest of the body may still fail: its client would get no
	// answer else, and the compressor may keep all of it for long.
	ctx.Response.ImmediateHeaderFlush = r.err == nil
}

// writeGzip is Stream.WriteTo with compression. The end of the body leaves in one write.
func writeGzip(s *Stream, w io.Writer) (n int64, err error) {
	pool := s.resp.gzip
	z := pool.get(w)
	defer pool.put(z)
	for {
		p, err := s.resp.next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			s.end()
			s.hold()
			if err = z.zip.Close(); err == nil {
				err = z.out.Flush()
			}
			if err != nil {
				return n, s.clientFailed(err)
			}
			return n, nil
		default:
			s.err = err // half of a compressed document is of no use to anyone
			return n, err
		}
		s.obs.Body(p)
		n += int64(len(p))
		if _, err = z.zip.Write(p); err != nil {
			return n, s.clientFailed(err)
		}
	}
}
