package ingress

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"
)

var (
	expectContinue  = []byte("100-continue")
	optionClose     = []byte("close")
	connectionField = []byte(fasthttp.HeaderConnection)
	lengthField     = []byte(fasthttp.HeaderContentLength)
	codingField     = []byte(fasthttp.HeaderTransferEncoding)
	expectField     = []byte(fasthttp.HeaderExpect)
	hostField       = []byte(fasthttp.HeaderHost)
	typeField       = []byte(fasthttp.HeaderContentType)
	keyField        = []byte(fasthttp.HeaderAuthorization)
)

// nameByte has the bytes of a field's name and of a method (tchar of RFC 9110 5.6.2).
var nameByte = nameBytes()

func nameBytes() (name [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		name[c] = c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), byte(c)) >= 0
	}
	return name
}

// headLines looks at the lines of a head as they come. fasthttp (1.74) takes a line that ends in LF
// alone, but an end of LF alone for no end: it would wait for the rest until the client's time is
// up.
type headLines struct {
	begun bool // past empty lines before the first one
	part  int  // bytes of the line that has not ended
	cr    bool // the last of them is CR
	ended bool // the head has
	bare  bool // a line ended in LF alone
}

// read looks at the next bytes of a connection, and returns those behind the head.
func (l *headLines) read(p []byte) []byte {
	for len(p) > 0 && !l.ended {
		n := bytes.IndexByte(p, '\n')
		if n < 0 {
			l.part, l.cr = l.part+len(p), p[len(p)-1] == '\r'
			return nil
		}
		if n > 0 {
			l.part, l.cr = l.part+n, p[n-1] == '\r'
		}
		empty := l.part == 0 || l.part == 1 && l.cr
		l.bare = !l.cr && (l.begun || !empty)
		l.ended = l.bare || l.begun && empty
		l.begun = l.begun || !empty
		l.part, l.cr, p = 0, false, p[n+1:]
	}
	return p
}

// checkHead refuses heads that fasthttp (1.74) accepts and that another server reads differently,
// or not at all. Such a difference lets a client smuggle a second request past one of two servers.
func checkHead(h *fasthttp.RequestHeader) error {
	lengths, codings, types, keys := false, false, 0, 0
	for rest := h.RawHeaders(); len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 1 || rest[end-1] != '\r' {
			return errBareLF
		}
		line := rest[:end-1]
		rest = rest[end+1:]
		if len(line) == 0 {
			continue // the end
		}
		if line[0] == ' ' || line[0] == '\t' { // obs-fold (RFC 9112 5.2)
			return fmt.Errorf("%w: a field goes on in a second line", ErrRequest)
		}
		n := 0
		for n < len(line) && nameByte[line[n]] {
			n++
		}
		if n == len(line) || line[n] != ':' {
			return fmt.Errorf("%w: a field's name has a space", ErrRequest)
		}
		switch name := line[:n]; {
		case n == len(expectField) && h.IsHTTP11() && bytes.EqualFold(name, expectField):
			if !bytes.EqualFold(bytes.TrimSpace(line[n+1:]), expectContinue) {
				return ErrExpectation
			}
		case n == len(hostField) && bytes.EqualFold(name, hostField):
			if !isAuthority(bytes.TrimSpace(line[n+1:])) {
				return fmt.Errorf("%w: its Host is not a host with or without a port", ErrRequest)
			}
		case n == len(lengthField) && bytes.EqualFold(name, lengthField):
			lengths = true
		case n == len(codingField) && bytes.EqualFold(name, codingField):
			codings = true
		case n == len(typeField) && bytes.EqualFold(name, typeField):
			types++
		case n == len(keyField) && bytes.EqualFold(name, keyField):
			keys++
		}
	}
	switch {
	case types > 1, keys > 1: // one server believes the first, another the last
		return fmt.Errorf("%w: it has two fields of Content-Type or Authorization", ErrRequest)
	case codings && lengths:
		return fmt.Errorf("%w: it has both Content-Length and Transfer-Encoding", ErrRequest)
	case codings && h.ContentLength() != -1:
		// fasthttp reads "identity", which RFC 9112 abolished, as no body: the body would be the
		// next request.
		return fmt.Errorf("%w: the only Transfer-Encoding that is known here is chunked", ErrRequest)
	}
	return nil
}

// isAuthority reports whether a Host has only the bytes of one: fasthttp reads "a@b" as b and "a/b"
// as a, and a server before it may not.
func isAuthority(host []byte) bool {
	for _, c := range host {
		if (!pathByte[c] || c == '/' || c == '@') && bytes.IndexByte([]byte("[]%"), c) < 0 {
			return false
		}
	}
	return true
}

// notNominated are fields that the router reads for itself.
var notNominated = [][]byte{
	connectionField, []byte("te"), []byte("trailer"), hostField, expectField, lengthField, codingField,
	[]byte(fasthttp.HeaderXForwardedFor), // a proxy before this router names the client in it
}

// dropNominated removes the fields that Connection names: they belong to this connection only
// (RFC 9110 7.6.1). fasthttp (1.74) recognizes "close" but not "close, TE", and keeps the last of
// several Connection fields.
func dropNominated(h *fasthttp.RequestHeader) {
	if len(h.PeekCanonical(connectionField)) == 0 {
		return
	}
	closes := h.ConnectionClose()
	for line := range bytes.Lines(h.RawHeaders()) {
		name, list, _ := bytes.Cut(line, []byte{':'})
		if !bytes.EqualFold(name, connectionField) {
			continue
		}
		for len(list) > 0 {
			var option []byte
			option, list, _ = bytes.Cut(list, []byte{','})
			option = bytes.TrimSpace(option)
			closes = closes || bytes.EqualFold(option, optionClose)
			if !slices.ContainsFunc(notNominated, func(name []byte) bool { return bytes.EqualFold(name, option) }) {
				h.DelBytes(option)
			}
		}
	}
	if closes {
		h.SetConnectionClose()
	}
}
