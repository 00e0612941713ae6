package upstream

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

// Field is one header field that the router adds.
type Field struct {
	Key   string
	Value []byte // nil sends none
}

// Request is one request to a worker.
type Request struct {
	Target Target
	Method []byte
	Path   []byte // request target with its query, as it goes on the wire

	Lines []byte  // the client's header, as AppendLines makes it
	Extra []Field // is added

	// Body is sent with one writev; Content-Length is the sum of the parts.
	Body [][]byte

	// Once has Do return ErrStale instead of sending the request again where a kept-alive
	// connection dies before an answer.
	Once bool
	// Fresh has the request take a new connection, which cannot be stale.
	Fresh bool

	Now time.Time // the time of sending; zero: Do asks the clock

	// HeaderTimeout is the longest wait for the first byte of the answer, from the end of the
	// dial, and ReadTimeout the longest wait for each further read. 0 is forever; both may last
	// an eighth longer.
	HeaderTimeout time.Duration
	ReadTimeout   time.Duration
}

// AppendLines appends the fields of a client's header that may go to a worker, a line each, except
// those in extra, which replace or remove them. Hop-by-hop fields, Host, Content-Length and Expect
// are left out.
func AppendLines(dst []byte, h *fasthttp.RequestHeader, extra []Field) []byte {
	named := h.PeekCanonical([]byte(fasthttp.HeaderConnection))
	trailers := false
	for k, v := range h.All() {
		if !trailers && fold(k, "te") && hasToken(v, tokenTrailers) {
			trailers = true
			dst = append(dst, wantTrailers...)
			continue
		}
		if skipRequestField(k) || nominated(named, k) || replaced(extra, k) {
			continue
		}
		dst = appendLine(dst, k, v)
	}
	return dst
}

var (
	tokenTrailers = []byte("trailers")
	// wantTrailers repeats the client's TE, which is of its connection, for the worker's (RFC
	// 9110 10.1.4). Codings other than chunked are not supported.
	wantTrailers = []byte("TE: trailers\r\nConnection: TE\r\n")
)

// appendHead appends the request's head to dst.
func (r *Request) appendHead(dst []byte) ([]byte, error) {
	if len(r.Method) == 0 || len(r.Path) == 0 || breaksLine(r.Path) || breaksLine(r.Method) {
		return dst, fmt.Errorf("%w: method %q or path %q", ErrBadRequest, r.Method, r.Path)
	}
	dst = append(dst, r.Method...)
	dst = append(dst, ' ')
	dst = append(dst, r.Path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, r.Target.host()...)
	// Without the field a worker might choose any coding (RFC 9110 12.5.3).
	dst = append(dst, "\r\nAccept-Encoding: identity\r\n"...)
	dst = append(dst, r.Lines...)
	for i := range r.Extra {
		f := &r.Extra[i]
		if f.Value == nil {
			continue
		}
		if bytes.IndexByte(f.Value, '\r') >= 0 || bytes.IndexByte(f.Value, '\n') >= 0 || bytes.IndexByte(f.Value, 0) >= 0 {
			return dst, fmt.Errorf("%w: value of %s", ErrBadRequest, f.Key)
		}
		dst = append(dst, f.Key...)
		dst = append(dst, ':', ' ')
		dst = append(dst, f.Value...)
		dst = append(dst, '\r', '\n')
	}
	return r.appendLength(dst), nil
}

// appendLength ends the head. A method that usually has a body gets a length even when the body
// is empty: servers would wait for it.
func (r *Request) appendLength(dst []byte) []byte {
	n := 0
	for _, b := range r.Body {
		n += len(b)
	}
	if n > 0 || r.Method[0] == 'P' { // POST, PUT, PATCH
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, int64(n), 10)
		dst = append(dst, '\r', '\n')
	}
	return append(dst, '\r', '\n')
}

func appendLine(dst, k, v []byte) []byte {
	dst = append(dst, k...)
	dst = append(dst, ':', ' ')
	dst = append(dst, v...)
	return append(dst, '\r', '\n')
}

// breaksLine reports whether b would end a request line early, by control bytes or spaces.
func breaksLine(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c == 0x7f {
			return true
		}
	}
	return false
}
