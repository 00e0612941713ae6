package ingress

import (
	"bytes"
	"fmt"

	"github.com/valyala/fasthttp"
)

// checkTarget refuses targets that two servers could read differently: a path is matched as it is
// written and sent on as it is written, so it must be in the one form that needs no resolving
// (RFC 3986 6.2.2). slashes is the path below which an escaped slash may stand in a name.
func checkTarget(h *fasthttp.RequestHeader, slashes []byte) error {
	target := h.RequestURI()
	if len(target) == 1 && target[0] == '*' && string(h.Method()) == fasthttp.MethodOptions {
		return nil
	}
	path, ok := pathOf(target)
	if !ok || bytes.IndexByte(target, '#') >= 0 {
		return fmt.Errorf("%w: its target is neither a path nor an http URL", ErrRequest)
	}
	if len(path) > 0 && !canonical(path, len(slashes) > 0 && bytes.HasPrefix(path, slashes)) {
		return fmt.Errorf("%w: its path is not canonical: no empty or dot segments, no escapes but of bytes that need one", ErrRequest)
	}
	return nil
}

// pathOf returns the path of a target, which is empty where an absolute one has none.
func pathOf(target []byte) (path []byte, ok bool) {
	path, _, _ = bytes.Cut(target, []byte{'?'})
	if len(path) > 0 && path[0] == '/' {
		return path, true
	}
	scheme, rest, ok := bytes.Cut(path, []byte("://"))
	if !ok || !bytes.EqualFold(scheme, []byte("http")) && !bytes.EqualFold(scheme, []byte("https")) {
		return nil, false
	}
	end := bytes.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	return rest[end:], end > 0 && bytes.IndexByte(rest[:end], '@') < 0
}

// canonical reports whether a path, which begins with a slash, needs no resolving. slashes says
// that an escaped slash is part of a name.
func canonical(path []byte, slashes bool) bool {
	begin := 0 // of a segment
	for i := 0; i <= len(path); i++ {
		width := 1
		switch {
		case i == len(path) || path[i] == '/':
		case path[i] == '%':
			c, ok := unescape(path[i:])
			switch {
			case !ok || pathByte[c] && c != '/' || c == '\\' || c < ' ' || c == 0x7f:
				return false
			case c != '/':
				i += 2
				continue
			case !slashes:
				return false
			}
			width = 3
		case !pathByte[path[i]]:
			return false
		default:
			continue
		}
		if i > 0 && !nameSegment(path[begin:i], i == len(path)) {
			return false
		}
		i += width - 1
		begin = i + 1
	}
	return true
}

// nameSegment reports whether a segment is a name. The last one may be empty.
func nameSegment(s []byte, last bool) bool {
	return (len(s) > 0 || last) && string(s) != "." && string(s) != ".."
}

// unescape returns the byte of an escape, which b begins with.
func unescape(b []byte) (c byte, ok bool) {
	if len(b) < 3 {
		return 0, false
	}
	high, ok := hexDigit(b[1])
	low, also := hexDigit(b[2])
	return high<<4 | low, ok && also
}

// hexDigit returns the value of a hex digit.
func hexDigit(c byte) (v byte, ok bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}

// pathByte has the bytes of a path without an escape. Delimiters may be escaped or not, which
// makes two names; this server has none with either.
var pathByte = pathBytes()

func pathBytes() (path [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		path[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || bytes.IndexByte([]byte("-._~!$&'()*+,;=:@/"), byte(c)) >= 0
	}
	return path
}
