package upstream

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/socket"
)

// Observer watches one forwarded answer. Its methods are called from the goroutine that serves
// the client.
type Observer interface {
	// Body sees each piece before it is written to the client. p aliases the read buffer. It
	// must not cancel the request, or wait: the connection to the worker is being read.
	Body(p []byte)
	// Broken is told why the worker's answer ended early. Its result is sent to the client as
	// the last piece, followed by a clean end (an SSE error event, for one); nil cuts the
	// client's connection instead, so that nobody takes a part for the whole. It is called only
	// where the client's answer is chunked.
	Broken(err error) []byte
	// Ended is told that a stream in whole events has ended as it should. Its result is sent to the
	// client as the last piece, as Broken's is; nil: nothing is missing.
	Ended() []byte
	// Closed is called exactly once, last, in every case, and releases resources. err is nil if
	// the client's socket took the whole body (a short last piece leaves after it, with the end
	// of the answer), wraps ErrClient if the client's side failed, and else is the failure of
	// the worker's answer.
	Closed(err error)
}

// Client is the connection of a client as a Stream writes to it beside fasthttp; ingress.Client
// is one.
type Client interface {
	net.Conn
	// Hold keeps writes back until Unhold; the next write or Flush then sends them with its
	// own.
	Hold()
	Unhold()
	Flush() error
	// Socket returns the socket for bytes of an answer; nil where TLS or bytes held back come
	// first.
	Socket() *socket.Conn
}

// Stream is the body of a forwarded answer for fasthttp's server. It writes each piece to the
// client as soon as it is there, and pieces that arrived together as one.
//
// fasthttp (1.74) calls WriteTo for both framings because SupportsBodyWriteTo says so, and
// Close after it in every case, failed writes and a request that is dropped before its header
// is written included. Chunked: each Write is one chunk and is flushed. Fixed size: Write fills
// a bufio.Writer, so WriteTo flushes it whenever it would have to wait for the worker.
type Stream struct {
	resp *Response
	obs  Observer
	to   Client                   // nil: the server is not of package ingress
	head *fasthttp.ResponseHeader // of the client's answer
	err  error
	done bool // the client has all of it
}

var (
	_ fasthttp.BodyWriterTo = (*Stream)(nil)
	_ io.ReadCloser         = (*Stream)(nil)
)

const (
	// maxHeld is the longest last piece of a stream that is worth a copy: it holds the last
	// events.
	maxHeld = 1 << 10
	// maxWhole is the longest answer that is copied so that it leaves in one write, though
	// fasthttp's buffer is smaller. With its header it fits a socket.Buffer.
	maxWhole = 15 << 10
)

// Forward makes r the answer to ctx and takes over its Close: status, header without hop-by-hop
// fields, body as a Stream where there is one. The answer gets the date now where the worker
// gave none. The caller may still change ctx.Response.Header afterwards. obs.Closed is called
// during Forward if the answer has no body or is Whole, and else once fasthttp has written it.
func Forward(ctx *fasthttp.RequestCtx, r *Response, obs Observer, now time.Time) {
	out := &ctx.Response
	dropHopByHop(&r.Header)
	r.Header.CopyTo(&out.Header)
	out.Header.SetStatusCode(r.Status)
	out.Header.SetProtocol(protocol)  // A worker's HTTP/1.0 is not the client's,
	out.Header.ResetConnectionClose() // nor is its Connection: close.
	if len(out.Header.PeekCanonical([]byte(fasthttp.HeaderDate))) == 0 {
		setDate(&out.Header, now)
	}
	size := r.ContentLength()
	changes := r.change != nil || r.events.on
	switch {
	case size == 0 && r.ended():
		forwardEmpty(ctx, r, obs)
		return
	case !changes && r.Whole():
		forwardWhole(ctx, r, obs, now)
		return
	case changes:
		size = -1
	}
	if r.body == bodyChunked {
		announce(&out.Header)
	} else {
		_ = out.Header.SetTrailer("") // nothing can follow the body
	}
	to, _ := ctx.Conn().(Client)
	r.stream = Stream{resp: r, obs: obs, to: to, head: &out.Header}
	out.SetBodyStream(&r.stream, int(size))
	// Without a body byte at hand the header must not wait for one; with it, both leave in one
	// packet.
	out.ImmediateHeaderFlush = size < 0 && !r.ready()
}

var protocol = []byte("HTTP/1.1")

// forwardEmpty ends an answer without a body.
func forwardEmpty(ctx *fasthttp.RequestCtx, r *Response, obs Observer) {
	out := &ctx.Response
	out.SkipBody = ctx.IsHead()
	if !out.SkipBody {
		out.Header.Del(fasthttp.HeaderTransferEncoding)
	}
	_ = r.Close()
	obs.Closed(nil)
}

// forwardWhole copies a short answer, and ends it.
func forwardWhole(ctx *fasthttp.RequestCtx, r *Response, obs Observer, now time.Time) {
	_ = ctx.Response.Header.SetTrailer("")
	p, _ := r.next() // it is here
	obs.Body(p)
	ctx.Response.SetBody(p)
	if r.cn != nil {
		r.cn.in.now = now
	}
	_ = r.Close()
	obs.Closed(nil)
}

// dropHopByHop removes the fields that belong to the worker's connection only, and those that only
// the router writes.
func dropHopByHop(h *fasthttp.ResponseHeader) {
	named := h.PeekCanonical([]byte(fasthttp.HeaderConnection))
	var victims []string // rarely any; deleting while iterating is not allowed
	for k := range h.All() {
		// fasthttp owns the two framing fields and sets them for the client's connection.
		framing := fold(k, "transfer-encoding") || fold(k, "content-length")
		if !framing && (hopByHopAnswer(k) || nominated(named, k) || routersOwn(k)) {
			victims = append(victims, string(k))
		}
	}
	for _, k := range victims {
		h.Del(k)
	}
}

// Read is for readers other than fasthttp.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.resp.Read(p)
	if n > 0 {
		s.obs.Body(p[:n])
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		s.end()
	default:
		s.err = err
	}
	return n, err
}

// end notes that the body is complete.
func (s *Stream) end() {
	s.done = true
	conclude(s.head, s.resp)
}

// SupportsBodyWriteTo tells fasthttp that WriteTo does all that Read does.
func (s *Stream) SupportsBodyWriteTo() bool { return true }

type flusher interface{ Flush() error }

// WriteTo writes the body to w, waiting for nothing but the worker.
func (s *Stream) WriteTo(w io.Writer) (n int64, err error) {
	if s.resp.change != nil {
		return writeChanged(s, w)
	}
	f, buffered := w.(flusher)
	for {
		switch {
		case s.resp.ready():
		case buffered:
			if err := f.Flush(); err != nil {
				return n, s.clientFailed(err)
			}
		case n > 0 && canRelay(s): // the header is on its way
			m, worker, client := relayStream(s)
			n += m
			if client != nil {
				return n, s.clientFailed(client)
			}
			if worker != nil {
				return s.broken(w, n, s.resp.fail(worker), buffered)
			}
		}
		p, err := s.resp.next()
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			s.end()
			if !buffered {
				s.hold()
			}
			return s.rest(w, n)
		default:
			return s.broken(w, n, err, buffered)
		}
		s.obs.Body(p)
		if p = s.resp.events.pass(p); len(p) == 0 {
			continue
		}
		if !buffered && len(p) <= maxHeld && s.resp.ended() {
			s.hold() // the end is here: one write does
		}
		m, err := s.write(w, p)
		n += int64(m)
		if err != nil {
			return n, s.clientFailed(err)
		}
	}
}

// rest writes the bytes that were held back of a stream that has ended, or an error event.
func (s *Stream) rest(w io.Writer, n int64) (int64, error) {
	if !s.resp.events.on {
		return n, nil
	}
	p := s.resp.events.end()
	if tail := s.obs.Ended(); tail != nil {
		p = append(s.resp.events.breakOff(), tail...)
	}
	if len(p) == 0 {
		return n, nil
	}
	m, err := w.Write(p)
	if err != nil {
		s.done = false
		return n + int64(m), s.clientFailed(err)
	}
	return n + int64(m), nil
}

// write writes one piece. A whole answer that does not fit fasthttp's buffer would leave in
// several writes.
func (s *Stream) write(w io.Writer, p []byte) (int, error) {
	b, fixed := w.(*bufio.Writer)
	if !fixed || s.to == nil || len(p) <= b.Available() || len(p) > maxWhole {
		return w.Write(p)
	}
	s.to.Hold()
	n, err := w.Write(p)
	if err == nil {
		err = b.Flush()
	}
	s.to.Unhold()
	if err != nil {
		return n, err
	}
	return n, s.to.Flush()
}

// hold has the end of a chunked answer leave in one write: fasthttp (1.74) makes three.
func (s *Stream) hold() {
	if s.to != nil {
		s.to.Hold()
	}
}

// broken ends the client's answer after the worker's ended early.
func (s *Stream) broken(w io.Writer, n int64, err error, fixed bool) (int64, error) {
	s.err = err
	if fixed {
		return n, err
	}
	tail := s.obs.Broken(err)
	if tail == nil {
		return n, err
	}
	_ = s.head.SetTrailer("") // the announced fields will not come
	if begun := s.resp.events.breakOff(); begun != nil {
		tail = append(begun, tail...)
	}
	m, werr := w.Write(tail)
	return n + int64(m), werr
}

func (s *Stream) clientFailed(err error) error {
	s.err = fmt.Errorf("%w: %w", ErrClient, err)
	return s.err
}

// Close closes the Response and tells the Observer the result.
func (s *Stream) Close() error {
	if s.to != nil {
		s.to.Unhold()
	}
	obs, err := s.obs, s.err
	if err == nil && !s.done {
		err = ErrClient // only a failure of the client's side ends the server's writing early
	}
	_ = s.resp.Close() // s is part of the Response and must not be used from here on.
	obs.Closed(err)
	return nil
}

// date is the value of Date in one second.
type date struct {
	second int64
	text   []byte
}

var lastDate atomic.Pointer[date]

// setDate dates an answer that has no date (RFC 9110 6.6.1).
func setDate(h *fasthttp.ResponseHeader, now time.Time) {
	d := lastDate.Load()
	if d == nil || d.second != now.Unix() {
		d = &date{now.Unix(), fasthttp.AppendHTTPDate(nil, now.UTC())}
		lastDate.Store(d)
	}
	h.SetCanonical(headerDate, d.text)
}

var headerDate = []byte(fasthttp.HeaderDate)
