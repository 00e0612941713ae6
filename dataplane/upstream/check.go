package upstream

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/valyala/fasthttp"
)

// checkHead refuses heads that fasthttp (1.74) takes and that other servers read in another way, or
// not at all: the way to smuggle a second request past one of two servers.
func checkHead(h *fasthttp.RequestHeader) error {
	lengths, codings := 0, 0
	for rest := h.RawHeaders(); len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 1 || rest[i-1] != '\r' {
			return fmt.Errorf("%w: a line of its head does not end with CRLF", ErrRequest)
		}
		line := rest[:i-1]
		rest = rest[i+1:]
		if len(line) == 0 || line[0] == ' ' || line[0] == '\t' {
			continue // the end, or more of the field before
		}
		n := 0
		for n < len(line) && nameByte[line[n]] {
			n++
		}
		if n == len(line) || line[n] != ':' {
			return fmt.Errorf("%w: a field's name has a space", ErrRequest)
		}
		switch {
		case n == len("expect") && fold(line[:n], "expect") && h.IsHTTP11() && !bytes.EqualFold(bytes.TrimSpace(line[n+1:]), expectContinue):
			return ErrExpectation
		case n == len("content-length") && fold(line[:n], "content-length"):
			lengths++
		case n == len("transfer-encoding") && fold(line[:n], "transfer-encoding"):
			codings++
		}
	}
	switch {
	case codings > 0 && lengths > 0:
		return fmt.Errorf("%w: it has both Content-Length and Transfer-Encoding", ErrRequest)
	case codings > 0 && h.ContentLength() != -1:
		// fasthttp takes "identity", which no longer exists, for no body: the body would be the next request.
		return fmt.Errorf("%w: the only Transfer-Encoding that is known here is chunked", ErrRequest)
	}
	return nil
}

var (
	connectionField = []byte(fasthttp.HeaderConnection)
	// notNominated are fields that the server needs itself. None of them goes to a worker as it came.
	notNominated = [][]byte{
		connectionField, []byte("te"), []byte("trailer"), []byte("host"), []byte("expect"), []byte("content-length"), []byte("transfer-encoding"),
	}
)

// dropNominated removes the fields that Connection names: they are of this connection only
// (RFC 9110 7.6.1). fasthttp (1.74) understands "close" alone, not "close, TE", and of several
// Connection fields the last.
func dropNominated(h *fasthttp.RequestHeader) {
	if len(h.Peek(fasthttp.HeaderConnection)) == 0 {
		return
	}
	closes, within := h.ConnectionClose(), false
	for line := range bytes.Lines(h.RawHeaders()) {
		list := line
		if line[0] != ' ' && line[0] != '\t' { // else it goes on with the field before
			var name []byte
			name, list, _ = bytes.Cut(line, []byte{':'})
			within = bytes.EqualFold(name, connectionField)
		}
		for within && len(list) > 0 {
			var option []byte
			option, list, _ = bytes.Cut(list, []byte{','})
			option = bytes.TrimSpace(option)
			closes = closes || bytes.EqualFold(option, tokenClose)
			if !slices.ContainsFunc(notNominated, func(name []byte) bool { return bytes.EqualFold(name, option) }) {
				h.DelBytes(option)
			}
		}
	}
	if closes {
		h.SetConnectionClose()
	}
}
