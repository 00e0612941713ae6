package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// More interim answers than this are a fault: uvicorn sends at most a 100 and a 103.
const maxInterim = 8

// Do sends req and returns as soon as the header of the final answer is parsed. c may be nil; otherwise Cancel ends the
// request at any time until the Response is closed. A kept-alive connection that turns out to be dead before any byte of
// an answer is replaced by a new one, once, unless req.Once forbids it. Any error means that nothing is left open.
func (t *Transport) Do(c *Canceler, req *Request) (*Response, error) {
	k := poolKey{req.Target.Addr, req.Target.TLS}
	var before error
	for fresh := req.Fresh; ; fresh = true {
		cn, err := t.connect(c, k, fresh, req.Now)
		if err != nil {
			if before != nil && errors.Is(err, ErrDial) {
				err = before // the worker may have died of the request: nothing was sent is not the whole truth
			}
			return nil, err
		}
		resp, err := t.roundTrip(c, cn, req)
		if err == nil {
			return resp, nil
		}
		if req.Once || !cn.reused || fresh || !errors.Is(err, ErrNoResponse) {
			return nil, err
		}
		before = err
	}
}

// roundTrip sends req over cn and reads the header of the answer. It owns cn: on failure the connection is gone.
func (t *Transport) roundTrip(c *Canceler, cn *conn, req *Request) (*Response, error) {
	var err error
	if cn.head, err = req.appendHead(cn.head[:0]); err != nil {
		t.discard(cn)
		return nil, err
	}
	if err := c.bind(cn); err != nil {
		t.discard(cn)
		return nil, err
	}
	r := t.acquire(c, cn)
	cn.send(req.Body)
	err = r.readHeader(req)
	if err == nil {
		return r, nil
	}
	// Close first: it wakes the writer, if one is still at it.
	cn.abort()
	cn.finishSend()
	if c.unbind() {
		err = ErrCanceled
	}
	t.discard(cn)
	t.release(r)
	return nil, fmt.Errorf("cannot get response of %s: %w", req.Target.Addr, err)
}

// readHeader reads up to the end of the final header and decides how the body is framed.
func (r *Response) readHeader(req *Request) error {
	cn := r.cn
	before := cn.got
	for range maxInterim {
		cn.wait = req.HeaderTimeout
		if err := cn.fill(); err != nil {
			if cn.got == before {
				return readError(err, ErrNoResponse)
			}
			return readError(err, ErrTruncated)
		}
		cn.wait = req.ReadTimeout
		if err := r.parseHeader(); err != nil {
			return err
		}
		switch status := r.Header.StatusCode(); {
		case status == fasthttp.StatusSwitchingProtocols:
			return fmt.Errorf("%w: switches protocols unasked", ErrBadResponse)
		case status >= 200:
			r.Status = status
			r.frame(req)
			return nil
		}
	}
	return fmt.Errorf("%w: too many interim responses", ErrBadResponse)
}

// parseHeader reads one header, interim or final.
func (r *Response) parseHeader() error {
	cn := r.cn
	start := cn.consumed()
	// fasthttp takes HTTP/2.0 for a version and status 000 for 200.
	line, err := cn.br.Peek(len("HTTP/1.1 2"))
	if tlsconfig.IsRecord(line) {
		return fmt.Errorf("%w: %w", ErrBadResponse, tlsconfig.ErrTLS)
	}
	if err != nil {
		return readError(err, ErrTruncated)
	}
	if !bytes.HasPrefix(line, http1) || line[8] != ' ' || line[9] < '1' || line[9] > '9' {
		return fmt.Errorf("%w: begins with %q", ErrBadResponse, line)
	}
	if err := r.awaitHead(); err != nil {
		return err
	}
	if err := r.Header.Read(cn.br); err != nil {
		// The parser reports an early end as it sees fit; what the connection said is exact.
		if cn.readErr != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return readError(cn.readErr, ErrTruncated)
		}
		return fmt.Errorf("%w: %w", ErrBadResponse, err)
	}
	if n := cn.consumed() - start; n > int64(r.t.cfg.MaxHeaderBytes) {
		return fmt.Errorf("%w: header of %d bytes, limit %d", ErrBadResponse, n, r.t.cfg.MaxHeaderBytes)
	}
	return nil
}

// awaitHead waits until a head is there as a whole, and looks at what fasthttp would wait for in vain, or pass on.
func (r *Response) awaitHead() error {
	br := r.cn.br
	for n := br.Buffered(); n <= br.Size(); n = max(n+1, br.Buffered()) {
		b, err := br.Peek(n)
		if err != nil {
			return readError(err, ErrTruncated)
		}
		end := wholeHead(b)
		switch {
		case end == headOdd:
			return fmt.Errorf("%w: a line of its head does not end with CRLF", ErrBadResponse)
		case end > 0 && spacedName(b[:end]):
			return fmt.Errorf("%w: a field's name has a space", ErrBadResponse)
		case end > 0:
			return nil
		}
	}
	return nil // which the parser says is too long
}

var (
	tokenClose = []byte("close")
	http1      = []byte("HTTP/1.")
)

// frame decides where the body ends and whether the connection lives on after it (RFC 9112 6.3).
func (r *Response) frame(req *Request) {
	h := &r.Header
	r.keep = !h.ConnectionClose() && !hasToken(h.Peek(fasthttp.HeaderConnection), tokenClose)
	n := h.ContentLength()
	switch {
	case string(req.Method) == "HEAD", r.Status == fasthttp.StatusNoContent, r.Status == fasthttp.StatusNotModified:
		r.body, r.left = bodyFixed, 0
	case n >= 0:
		r.body, r.left = bodyFixed, int64(n)
	case n == -1:
		r.body = bodyChunked
		r.chunks = chunkDecoder{limit: r.t.cfg.MaxHeaderBytes, trailer: r.chunks.trailer[:0]}
	default:
		r.body, r.keep = bodyToEnd, false
	}
}
