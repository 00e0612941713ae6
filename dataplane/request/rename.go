package request

import (
	"bytes"
	"strconv"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// renamer puts the client's own name of its request, or of each of a list, in the place of the
// router's ids in an answer.
type renamer struct {
	x    *exchange
	held []byte // the end of the pieces so far, where it may begin an id
}

// lowDigits is how many hex digits of a router's id differ within a list.
const lowDigits = 8

// renames reports whether an answer, which the worker has not compressed, has another name of the
// request than the client's. The ids of /v1/responses are the router's own always.
func (x *exchange) renames(resp *upstream.Response) bool {
	return x.inference && x.api != openai.APIResponses && !x.id.kept && len(x.id.rid) > 0 &&
		(x.req.RID != "" || len(x.req.RIDs) > 0) && len(resp.Peek("Content-Encoding")) == 0
}

// Append implements upstream.Rewriter.
func (r *renamer) Append(dst, p []byte) []byte {
	r.held = append(r.held, p...)
	id, rest := &r.x.id, r.held
	begin := id.rid[:len(id.rid)-lowDigits] // of all ids of the attempt
	at := bytes.Index(rest, begin)
	for ; at >= 0 && len(rest)-at >= len(id.rid); at = bytes.Index(rest, begin) {
		dst = append(dst, rest[:at]...)
		dst = r.appendName(dst, rest[at:at+len(id.rid)])
		rest = rest[at+len(id.rid):]
	}
	if at < 0 {
		at = len(rest) - begins(rest, begin)
	}
	dst = append(dst, rest[:at]...)
	r.held = append(r.held[:0], rest[at:]...)
	return dst
}

// appendName appends the client's name for an id, as in a JSON string.
func (r *renamer) appendName(dst, rid []byte) []byte {
	lo, err := strconv.ParseUint(string(rid[len(rid)-lowDigits:]), 16, 32)
	if err != nil {
		return append(dst, rid...)
	}
	name := r.x.req.RID
	if names := r.x.req.RIDs; len(names) > 0 {
		if name = ""; uint32(lo)-r.x.id.lo < uint32(len(names)) {
			name = names[uint32(lo)-r.x.id.lo]
		}
	}
	if name == "" {
		return append(dst, rid...)
	}
	at := len(dst)
	dst = openai.AppendString(dst, name)
	return append(dst[:at], dst[at+1:len(dst)-1]...) // without its quotes
}

// End implements upstream.Rewriter.
func (r *renamer) End(dst []byte) []byte {
	dst = append(dst, r.held...)
	r.held = r.held[:0]
	return dst
}

// begins returns the length of the longest end of p that begins whole.
func begins(p, whole []byte) int {
	for n := min(len(p), len(whole)-1); n > 0; n-- {
		if bytes.HasSuffix(p, whole[:n]) {
			return n
		}
	}
	return 0
}
