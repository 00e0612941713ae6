package wire

import "bytes"

// Head is the head of a request or of an answer.
type Head struct {
	Size      int    // bytes that it takes
	Line      []byte // the first, without its end
	Length    int    // Content-Length, -1 without one
	Chunked   bool
	Close     bool // Connection: close
	KeepAlive bool // Connection: keep-alive
	Continue  bool // Expect: 100-continue
	Events    bool // Content-Type: text/event-stream
}

// maxHead exceeds the heads of all clients and servers here.
const maxHead = 64 << 10

// ParseHead reads a head. Size is 0 when it is not all there.
func ParseHead(b []byte) (h Head, ok bool) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return h, len(b) < maxHead
	}
	h = Head{Size: end + 4, Length: -1}
	line, rest, _ := bytes.Cut(b[:end+2], []byte("\r\n"))
	for h.Line = line; len(rest) > 0; {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		if !h.field(line) {
			return h, false
		}
	}
	return h, true
}

// field reads a field that matters; others are only looked at by their first letter.
func (h *Head) field(line []byte) (ok bool) {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 {
		return false
	}
	if c := line[0] | 0x20; c != 'c' && c != 't' && c != 'e' {
		return true
	}
	name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
	switch {
	case is(name, "content-length"):
		h.Length, ok = Number(value)
		return ok
	case is(name, "transfer-encoding"):
		h.Chunked = is(value, "chunked")
		return h.Chunked
	case is(name, "connection"):
		h.Close, h.KeepAlive = is(value, "close"), is(value, "keep-alive")
	case is(name, "expect"):
		h.Continue = true
	case is(name, "content-type"):
		const events = "text/event-stream"
		h.Events = len(value) >= len(events) && is(value[:len(events)], events)
	}
	return true
}

// is compares without regard to case; lower is in lower case.
func is(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// maxNumber is beyond every length and below every overflow.
const maxNumber = 1 << 40

// Number reads digits, and nothing else.
func Number(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' || n > maxNumber {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, len(b) > 0
}
