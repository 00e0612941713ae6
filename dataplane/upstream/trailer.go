package upstream

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// The trailer of a chunked body (RFC 9112 7.1.2) goes to the client behind its own last chunk,
// whether it asked with TE or not: HTTP/1.1 clients must be able to read it (RFC 9110 6.5).
// Fields that a trailer must not hold are dropped (6.5.1), by fasthttp's list: framing,
// routing, authorization, content.

// trailers calls yield for each field of the trailer, once the body has ended. Lines that are
// no fields are left out: the body is whole without them.
func (d *chunkDecoder) trailers(yield func(k, v []byte)) {
	if !d.done() {
		return
	}
	rest := d.trailer
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, crlf)
		k, v, ok := bytes.Cut(line, colon)
		if !ok || !isToken(k) || bytes.IndexFunc(v, control) >= 0 {
			continue
		}
		yield(k, bytes.Trim(v, " \t"))
	}
}

var (
	crlf  = []byte("\r\n")
	colon = []byte(":")
)

// isToken reports whether b can be the name of a field (RFC 9110 5.6.2).
func isToken(b []byte) bool {
	for _, c := range b {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && bytes.IndexByte(tokenMarks, c) < 0 {
			return false
		}
	}
	return len(b) > 0
}

var tokenMarks = []byte("!#$%&'*+-.^_`|~")

// control reports whether a value must not have c.
func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// announce announces the worker's trailer to the client. fasthttp takes announced fields out of the
// header, so a field that is also in the header is sent without an announcement.
func announce(h *fasthttp.ResponseHeader) {
	keys := h.PeekTrailerKeys()
	if len(keys) == 0 {
		return
	}
	var kept []byte
	for _, k := range keys {
		if !hasField(h, k) && !routersOwn(k) {
			kept = append(append(kept, ','), k...)
		}
	}
	_ = h.SetTrailerBytes(bytes.TrimPrefix(kept, []byte{','})) // fasthttp's own list
}

// hasField reports whether the header itself has a field.
func hasField(h *fasthttp.ResponseHeader, key []byte) bool {
	for k := range h.All() {
		if bytes.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// conclude gives the client's answer, whose header was written, the worker's trailer. Announced
// fields that did not come are not sent; a field that came more than once becomes one (RFC 9110
// 5.3).
func conclude(h *fasthttp.ResponseHeader, r *Response) {
	if len(h.PeekTrailerKeys()) == 0 && (r.body != bodyChunked || len(r.chunks.trailer) == 0) {
		return // as nearly always
	}
	_ = h.SetTrailer("")
	var values map[string][]byte
	var order [][]byte
	if r.body == bodyChunked {
		r.chunks.trailers(func(k, v []byte) {
			name := string(bytes.ToLower(k))
			if old, ok := values[name]; ok {
				values[name] = append(append(old, ", "...), v...)
				return
			}
			if values == nil {
				values = make(map[string][]byte)
			}
			values[name] = append([]byte(nil), v...)
			order = append(order, k)
		})
	}
	for _, k := range order {
		if hopByHop(k) || routersOwn(k) || h.AddTrailerBytes(k) != nil { // not allowed there
			continue
		}
		h.DelBytes(k)
		h.SetBytesKV(k, values[string(bytes.ToLower(k))])
	}
}
