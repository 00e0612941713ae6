package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/tlsconfig"
)

// maxInterim bounds interim answers: uvicorn sends at most a 100 and a 103.
const maxInterim = 8

// readHeader reads up to the end of the final header and decides how the body is framed.
func (r *Response) readHeader(req *Request) error {
	in := &r.cn.in
	before := in.got
	for range maxInterim {
		in.wait = req.HeaderTimeout
		if err := in.fill(); err != nil {
			if in.got == before {
				return readError(err, ErrNoResponse)
			}
			return readError(err, ErrTruncated)
		}
		in.wait = req.ReadTimeout
		if err := r.parseHeader(in); err != nil {
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
func (r *Response) parseHeader(in *responseReader) error {
	start := in.consumed()
	// fasthttp takes HTTP/2.0 and HTTP/1.2 for versions and status 000 for 200.
	line, err := in.br.Peek(len("HTTP/1.1 2"))
	if tlsconfig.IsRecord(line) {
		return fmt.Errorf("%w: %w", ErrBadResponse, tlsconfig.ErrTLS)
	}
	if err != nil {
		return readError(err, ErrTruncated)
	}
	if !bytes.HasPrefix(line, http1) || line[7] != '0' && line[7] != '1' || line[8] != ' ' || line[9] < '1' || line[9] > '9' {
		return fmt.Errorf("%w: begins with %q", ErrBadResponse, line)
	}
	if err := awaitHead(in.br, line[7] == '0'); err != nil {
		return err
	}
	if err := r.Header.Read(in.br); err != nil {
		// The parser reports an early end as it sees fit; the connection's error is exact.
		if in.err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return readError(in.err, ErrTruncated)
		}
		return fmt.Errorf("%w: %w", ErrBadResponse, err)
	}
	if n := in.consumed() - start; n > int64(r.t.cfg.MaxHeaderBytes) {
		return fmt.Errorf("%w: header of %d bytes, limit %d", ErrBadResponse, n, r.t.cfg.MaxHeaderBytes)
	}
	return nil
}

// awaitHead waits for a whole head, and refuses heads that fasthttp would wait for in vain, or
// pass on. old says that it is of HTTP/1.0, which has no codings (RFC 9112 6.1): the end of such an
// answer is in doubt, and fasthttp would take the framing for the body.
func awaitHead(br *bufio.Reader, old bool) error {
	for n := br.Buffered(); n <= br.Size(); n = max(n+1, br.Buffered()) {
		b, err := br.Peek(n)
		if err != nil {
			return readError(err, ErrTruncated)
		}
		end, spaced := headEnd(b)
		switch {
		case end == headMalformed:
			return fmt.Errorf("%w: a line of its head does not end with CRLF", ErrBadResponse)
		case spaced:
			return fmt.Errorf("%w: a field's name has a space", ErrBadResponse)
		case end > 0 && old && hasCoding(b[:end]):
			return fmt.Errorf("%w: HTTP/1.0 with Transfer-Encoding", ErrBadResponse)
		case end > 0:
			return nil
		}
	}
	return nil // the parser refuses it as too long
}

var (
	tokenClose = []byte("close")
	http1      = []byte("HTTP/1.")
)

// frame decides where the body ends and whether the connection lives on after it (RFC 9112
// 6.3).
func (r *Response) frame(req *Request) {
	h := &r.Header
	r.keep = !h.ConnectionClose() && !hasToken(h.PeekCanonical([]byte(fasthttp.HeaderConnection)), tokenClose)
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

// Results of headEnd other than an end.
const (
	headIncomplete = 0
	headMalformed  = -1 // a line ends in LF alone, which readers understand differently
)

// headEnd returns the index behind the empty line of the head at the beginning of b, and whether
// the name of a field has a space or a tab, before its colon too. fasthttp accepts such fields and
// passes them on; other readers differ about them.
func headEnd(b []byte) (end int, spaced bool) {
	begun := false
	for at := 0; ; {
		n := bytes.IndexByte(b[at:], '\n')
		switch {
		case n < 0:
			return headIncomplete, false
		case n == 0 || b[at+n-1] != '\r':
			return headMalformed, false
		case n > 1 && begun:
			spaced = spaced || isSpaced(b[at:at+n])
		case n > 1:
			begun = true
		case begun: // empty lines before a head are no part of it
			return at + n + 1, spaced
		}
		at += n + 1
	}
}

// isSpaced reports whether a field's name has a space. A space at its beginning does not count: the
// line is a continuation, or fasthttp refuses it.
func isSpaced(line []byte) bool {
	name := line[:max(bytes.IndexByte(line, ':'), 0)]
	return len(name) > 0 && name[0] != ' ' && name[0] != '\t' && (bytes.IndexByte(name, ' ') >= 0 || bytes.IndexByte(name, '\t') >= 0)
}

// hasCoding reports whether a head has a Transfer-Encoding.
func hasCoding(head []byte) bool {
	for line := range bytes.Lines(head) {
		if name, _, ok := bytes.Cut(line, colon); ok && fold(name, "transfer-encoding") {
			return true
		}
	}
	return false
}
