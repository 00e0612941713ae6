package request

import (
	"strconv"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/tracing"
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

// request returns the request for a regular worker, valid until the next call.
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
	b.extra = appendParent(b.extra, x.single.span)
	b.lines = x.call.appendLines(b.lines[:0], b.extra)
	cfg := x.h.live()
	return upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS},
		Method: x.call.method(), Path: x.call.target(), Lines: b.lines, Extra: b.extra,
		Body:          b.parts,
		HeaderTimeout: cfg.FirstByteTimeout, ReadTimeout: cfg.StallTimeout,
		Once:  x.inference, // singleAttempt.do sends it again
		Fresh: x.mustBeFresh(),
	}
}

// mustBeFresh reports whether the request cannot be sent again where a kept-alive connection was
// closed: it is sent once only, or its id is the client's own, or it opens a session.
func (x *exchange) mustBeFresh() bool {
	return x.prompt.turn.once || x.id.kept || string(x.call.path()) == pathOpenSession
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
		case !x.rankInBody:
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

// pairHeaders are header fields that only the router may send to pairs: a client's own would give
// the legs different bootstrap rooms.
var pairHeaders = []upstream.Field{
	{Key: headerAPIKey}, // this and the next of clients whose keys are the router's
	{Key: headerAuthorization},
	{Key: headerName},
	{Key: headerRank},
	{Key: disagg.HeaderRID},
	{Key: disagg.HeaderHost},
	{Key: disagg.HeaderPort},
	{Key: disagg.HeaderRoom},
	{Key: disagg.HeaderRank},
	{Key: disagg.HeaderPrefillRank},
}

// maxPooledLeg bounds each buffer that a pooled pairAttempt keeps.
const maxPooledLeg = 1 << 20

// pairWriter makes the requests of both legs: the client's bytes with the router's fields as the
// last members of the body. As the last ones they win over members of the same names, which clients
// of SGLang's own load balancer send.
type pairWriter struct {
	mine   []upstream.Field // the client's own fields of these names do not go on
	lines  []byte           // the client's header
	fields []byte           // of the body, the same for both
	values []byte           // of headers, the same for both
	shared []upstream.Field
	rooms  []uint64
	legs   [2]legWriter
}

// legWriter is one leg's own part.
type legWriter struct {
	parts [][]byte
	extra []upstream.Field
	rank  []byte
}

// write makes the requests for the decision's ranks.
func (m *pairWriter) write(x *exchange) (prefill, decode upstream.Request) {
	m.reset()
	d := &x.choice.decision
	mine := pairHeaders[2:]
	if x.h.Keys != nil {
		mine = pairHeaders
	} else if x.answer.operator {
		mine = pairHeaders[1:]
	}
	m.mine = appendParent(append(m.mine[:0], mine...), x.single.span)
	m.lines = x.call.appendLines(m.lines, m.mine) // once: the two legs cannot both read it
	prompts := 1
	if x.req.Batch {
		prompts = x.req.Prompts
	}
	m.rooms = x.h.rooms.Append(m.rooms, prompts, d.Rank.DPRank, len(d.Rank.Worker.Ranks()))
	at, cfg := d.Rank.Worker.Bootstrap(), x.h.live()
	headers := cfg.Pair.Headers && (x.api == openai.APIChat || x.api == openai.APIMessages)
	m.shared = append(m.shared, x.call.nameField())
	if x.id.header {
		m.addHeader(disagg.HeaderRID, func(dst []byte) []byte { return append(dst, x.id.rid...) })
	}
	if headers {
		m.addHeaders(&x.id, at, d.Rank.DPRank)
	} else {
		m.fields = append(m.fields, x.id.field...)
	}
	if len(x.own) > 0 {
		m.fields = append(appendComma(m.fields), x.own...)
	}
	if local := &x.prompt.local; local.forward {
		m.fields = tokens.AppendField(appendComma(m.fields), local.ids)
	}
	if !headers {
		m.fields = disagg.AppendFields(appendComma(m.fields), at.Host, at.Port, m.rooms, x.req.Batch)
		m.fields = disagg.AppendPrefillRank(appendComma(m.fields), d.Rank.DPRank)
	}
	// The prefill worker sends nothing until the prompt is computed and its KV pages are sent, but
	// for the header of a stream.
	prefill = m.leg(x, d.Rank, legPrefill, x.pair.prefill.span, cfg.Pair.PrefillTimeout, cfg.Pair.PrefillTimeout)
	decode = m.leg(x, d.Decode, legDecode, x.single.span, cfg.FirstByteTimeout, cfg.StallTimeout)
	return prefill, decode
}

// addHeaders writes as headers the values that bodies else have.
func (m *pairWriter) addHeaders(id *requestID, at worker.Bootstrap, prefillRank int) {
	if len(id.field) > 0 {
		m.addHeader(disagg.HeaderRID, func(dst []byte) []byte { return append(dst, id.rid...) })
	}
	decimal := func(n int) func(dst []byte) []byte {
		return func(dst []byte) []byte { return strconv.AppendInt(dst, int64(n), 10) }
	}
	m.addHeader(disagg.HeaderHost, func(dst []byte) []byte { return disagg.AppendHost(dst, at.Host) })
	m.addHeader(disagg.HeaderPort, decimal(at.Port))
	m.addHeader(disagg.HeaderRoom, func(dst []byte) []byte {
		return strconv.AppendUint(dst, m.rooms[0], 10)
	})
	m.addHeader(disagg.HeaderPrefillRank, decimal(prefillRank))
}

// addHeader adds a field to both legs. A value stays where it was written when values grows.
func (m *pairWriter) addHeader(name string, value func(dst []byte) []byte) {
	begin := len(m.values)
	m.values = value(m.values)
	m.shared = append(m.shared, upstream.Field{Key: name, Value: m.values[begin:len(m.values):len(m.values)]})
}

// leg makes one leg's request.
func (m *pairWriter) leg(
	x *exchange, rank *worker.Rank, which leg, span *tracing.Attempt, firstByte, stall time.Duration,
) upstream.Request {
	w, l := rank.Worker, &m.legs[which]
	l.extra = append(l.extra, m.shared...)
	l.extra = appendParent(x.body.appendKey(l.extra, w), span)
	body := x.call.body()
	l.parts = appendBody(l.parts, body, m.fields)
	if len(w.Ranks()) > 1 {
		switch {
		case x.api != openai.APIGenerate:
			l.rank = strconv.AppendInt(l.rank, int64(rank.DPRank), 10)
			l.extra = append(l.extra, upstream.Field{Key: headerRank, Value: l.rank})
		case !x.rankInBody: // behind the fields, which are never empty
			l.rank = disagg.AppendRank(append(l.rank, ','), rank.DPRank)
			end := l.parts[len(l.parts)-1]
			l.parts = append(l.parts[:len(l.parts)-1], l.rank, end)
		}
	}
	return upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: x.call.method(),
		Path:  x.call.target(),
		Lines: m.lines, Extra: l.extra, Body: l.parts, HeaderTimeout: firstByte, ReadTimeout: stall,
		Once: true, // its bootstrap rooms are the attempt's own
		// SGLang refuses an id that it still has: a leg with the client's own may be sent once.
		Fresh: x.pair.fresh || x.mustBeFresh(),
	}
}

// reset forgets the request; buffers up to maxPooledLeg stay.
func (m *pairWriter) reset() {
	m.lines, m.fields, m.values = emptied(m.lines), emptied(m.fields), emptied(m.values)
	clear(m.shared)
	clear(m.mine)
	m.shared, m.rooms = m.shared[:0], m.rooms[:0]
	for i := range m.legs {
		l := &m.legs[i]
		clear(l.parts)
		clear(l.extra)
		l.parts, l.extra, l.rank = l.parts[:0], l.extra[:0], l.rank[:0]
	}
}

// emptied returns a buffer without its content, or nil for a large one.
func emptied(b []byte) []byte {
	if cap(b) > maxPooledLeg {
		return nil
	}
	return b[:0]
}
