package request

import (
	"bytes"
	"slices"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// Marks are fields that the server adds to a request's header for itself. No
// client can send a name that begins with a colon, and none leaves the router.
const (
	markUnmet   = ":unmet"   // the request expects what nobody knows
	markTrailer = ":trailer" // fields behind it came behind the body
)

var (
	expectContinue = []byte("100-continue")
	optionClose    = []byte("close")

	connectionField = []byte(fasthttp.HeaderConnection)
	// notNominated are fields that the server needs itself. None of them goes to a worker as it came.
	notNominated = [][]byte{
		connectionField, []byte("te"), []byte("trailer"), []byte("host"), []byte("expect"), []byte("content-length"), []byte("transfer-encoding"),
	}
)

// headerReceived looks at a request's header before its body is read. fasthttp
// (1.74) knows the expectation in lower case only, whatever the version, and
// adds the fields of a trailer to the header's.
func (s *Server) headerReceived(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if expect := h.Peek(fasthttp.HeaderExpect); len(expect) > 0 {
		switch {
		case !h.IsHTTP11(): // must be ignored (RFC 9110 10.1.1)
			h.Del(fasthttp.HeaderExpect)
		case !bytes.EqualFold(expect, expectContinue):
			h.Add(markUnmet, "1")
			h.SetBytesV(fasthttp.HeaderExpect, expectContinue)
		case !bytes.Equal(expect, expectContinue):
			h.SetBytesV(fasthttp.HeaderExpect, expectContinue)
		}
	}
	dropNominated(h)
	if h.ContentLength() == -1 { // chunked
		h.Add(markTrailer, "1")
	}
	return fasthttp.RequestConfig{MaxRequestBodySize: s.live().MaxBodyBytes}
}

// dropNominated takes out of the header what Connection says is of this connection only (RFC 9110 7.6.1). fasthttp takes "close" alone for
// what it says, and not "close, TE", and of several such fields knows the last.
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

// expect answers a client that asks before it sends its body: 100, or why not.
func (s *Server) expect(ctx *fasthttp.RequestCtx) int {
	h := &ctx.Request.Header
	switch {
	case len(h.Peek(markUnmet)) > 0:
		s.Fail(ctx, &openai.Error{
			Status: fasthttp.StatusExpectationFailed, Type: "invalid_request_error", Code: "expectation_failed",
			Message: "The only expectation that is known here is 100-continue.",
		})
	case h.ContentLength() > s.live().MaxBodyBytes:
		s.Fail(ctx, openai.TooLarge(s.live().MaxBodyBytes))
	default:
		return fasthttp.StatusContinue
	}
	upstream.Linger(ctx) // some clients send without waiting
	return ctx.Response.StatusCode()
}

// dropTrailer takes the fields of a chunked upload's trailer out of the header:
// nobody here knows what they mean, so they must not be taken for what stands
// before the body (RFC 9110 6.5.1), and a worker gets a body of known length,
// which nothing can follow.
func dropTrailer(h *fasthttp.RequestHeader) {
	if h.ContentLength() > 0 || len(h.Peek(markTrailer)) == 0 {
		return
	}
	type field struct{ k, v string }
	var before []field
	late, behind := map[string]bool{}, false
	for k, v := range h.All() {
		switch {
		case string(k) == markTrailer:
			behind = true
		case !behind:
			before = append(before, field{string(k), string(v)})
		case string(k) != fasthttp.HeaderConnection: // which comes last here, and in no trailer
			late[string(k)] = true
		}
	}
	h.Del(markTrailer)
	for k := range late {
		h.Del(k)
	}
	for _, f := range before {
		if late[f.k] {
			h.Add(f.k, f.v)
		}
	}
}
