package request

import (
	"strconv"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// bodyWriter makes the request that a worker gets: the client's bytes with the id, the rank and the
// token ids spliced in.
type bodyWriter struct {
	x     *exchange
	parts [][]byte
	extra []upstream.Field
	lines []byte // of the client's header
	rank  []byte
	long  []byte // fields with others than the request's id and rank
}

// request returns the request for an aggregated worker, valid until the next call.
func (b *bodyWriter) request(rank *worker.Rank) upstream.Request {
	x, w := b.x, rank.Worker
	b.parts, b.extra = b.parts[:0], b.extra[:0]
	body := x.call.body()
	if x.inference {
		b.splice(body, rank)
	} else if len(body) > 0 {
		b.long = append(b.long[:0], x.id.field...)
		if len(x.own) > 0 {
			b.long = append(appendComma(b.long), x.own...)
		}
		b.parts = appendBody(b.parts, body, b.long)
	}
	b.extra = append(b.appendKey(b.extra, w), x.call.nameField())
	b.extra = appendParent(b.extra, x.attempt.span)
	b.lines = x.call.appendLines(b.lines[:0], b.extra)
	cfg := x.h.live()
	return upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS},
		Method: x.call.method(), Path: x.call.target(), Lines: b.lines, Extra: b.extra,
		Body:          b.parts,
		HeaderTimeout: cfg.FirstByteTimeout, ReadTimeout: cfg.StallTimeout,
		Once:  x.inference, // attempt.do sends it again
		Fresh: x.mustBeFresh(),
	}
}

// mustBeFresh reports whether the request cannot be sent again where a kept-alive connection was
// closed: it is sent once only, or its id is the client's own.
func (x *exchange) mustBeFresh() bool {
	return x.prompt.turn.once || x.id.kept
}

// splice puts the router's fields into the body.
func (b *bodyWriter) splice(body []byte, rank *worker.Rank) {
	x := b.x
	fields := x.id.field
	if x.id.header {
		b.extra = append(b.extra, upstream.Field{Key: disagg.HeaderRID, Value: x.id.rid})
	}
	if len(rank.Worker.Ranks()) > 1 {
		switch {
		case x.api != openai.APIGenerate:
			b.rank = strconv.AppendInt(b.rank[:0], int64(rank.DPRank), 10)
			b.extra = append(b.extra, upstream.Field{Key: headerRank, Value: b.rank})
		case !x.rank.inBody:
			fields = disagg.AppendRank(appendComma(fields), rank.DPRank)
		}
	}
	local := &x.prompt.local
	if local.forward || len(x.own) > 0 {
		// The ids may be as long as the body: they have a buffer of their own.
		b.long = append(b.long[:0], fields...)
		if len(x.own) > 0 {
			b.long = append(appendComma(b.long), x.own...)
		}
		if local.forward {
			b.long = tokens.AppendField(appendComma(b.long), local.ids)
		}
		fields = b.long
	}
	b.parts = appendBody(b.parts, body, fields)
}

// appendBody appends the pieces of a body with fields as its last members, which win over others of
// the same names.
func appendBody(dst [][]byte, body, fields []byte) [][]byte {
	if len(fields) == 0 {
		return append(dst, body)
	}
	return openai.SpliceField(dst, body, fields)
}

// appendComma separates the fields in dst from the next one.
func appendComma(dst []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return dst
}

func (b *bodyWriter) reset() {
	clear(b.parts)
	clear(b.extra)
	b.parts, b.extra = b.parts[:0], b.extra[:0]
	if cap(b.long) > maxPooledText {
		b.long = nil
	}
}
