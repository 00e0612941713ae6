package request

import (
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// bodyWriter makes the requests that workers get, one or those of a pair: the client's bytes with
// the router's members as the last ones of the body. As the last ones they win over members of the
// same names, which clients of SGLang's own load balancer send.
type bodyWriter struct {
	x      *exchange
	lines  []byte           // the client's header
	fields []byte           // of the body, the same for both of a pair
	values []byte           // of headers, the same for both
	shared []upstream.Field // the same for both
	rooms  []uint64
	legs   [2]legWriter // a worker alone has the first one
}

// legWriter is one worker's own part.
type legWriter struct {
	parts [][]byte
	extra []upstream.Field
	rank  []byte
}

// single makes the request for a rank alone, valid until the next call.
func (b *bodyWriter) single(rank *worker.Rank) upstream.Request {
	b.begin(false)
	return b.leg(rank, legPrefill, b.x.single.span)
}

// pair makes the requests for the decision's ranks, valid until the next call.
func (b *bodyWriter) pair() (prefill, decode upstream.Request) {
	x, cfg := b.x, b.x.h.live()
	d := &x.choice.decision
	at, headers := d.Rank.Worker.Bootstrap(), cfg.Pair.Headers && (x.api == openai.APIChat || x.api == openai.APIMessages)
	b.begin(headers)
	b.shared = append(b.shared, upstream.Field{Key: headerRank}) // not the client's
	prompts := 1
	if x.req.Batch {
		prompts = x.req.Prompts
	}
	b.rooms = x.h.rooms.Append(b.rooms, prompts, d.Rank.DPRank, len(d.Rank.Worker.Ranks()))
	if headers {
		b.addHeaders(at, d.Rank.DPRank)
	} else {
		b.fields = disagg.AppendFields(b.fields, at.Host, at.Port, b.rooms, x.req.Batch)
		b.fields = disagg.AppendPrefillRank(b.fields, d.Rank.DPRank)
	}
	prefill = b.leg(d.Rank, legPrefill, x.pair.prefill.span)
	// The prefill worker sends nothing until the prompt is computed and its KV pages are sent, but
	// for the header of a stream.
	prefill.HeaderTimeout, prefill.ReadTimeout = cfg.Pair.PrefillTimeout, cfg.Pair.PrefillTimeout
	decode = b.leg(d.Decode, legDecode, x.single.span)
	return prefill, decode
}

// begin writes what the router adds at every worker: the request's name and id, the members that
// replace the client's, and the token ids. headers has the id go into a header.
func (b *bodyWriter) begin(headers bool) {
	x := b.x
	b.reset()
	b.shared = append(b.shared, x.call.nameField())
	if x.id.header || headers && len(x.id.field) > 0 {
		b.shared = append(b.shared, upstream.Field{Key: disagg.HeaderRID, Value: x.id.rid})
	}
	if !headers {
		b.fields = append(b.fields, x.id.field...)
	}
	if len(b.fields) > 0 && len(x.own) > 0 {
		b.fields = append(b.fields, ',')
	}
	b.fields = append(b.fields, x.own...)
	if local := &x.prompt.local; local.forward {
		b.fields = tokens.AppendField(b.fields, local.ids)
	}
}

// addHeaders writes as headers the values that bodies else have.
func (b *bodyWriter) addHeaders(at worker.Bootstrap, prefillRank int) {
	decimal := func(n int) func(dst []byte) []byte {
		return func(dst []byte) []byte { return strconv.AppendInt(dst, int64(n), 10) }
	}
	b.addHeader(disagg.HeaderHost, func(dst []byte) []byte { return disagg.AppendHost(dst, at.Host) })
	b.addHeader(disagg.HeaderPort, decimal(at.Port))
	b.addHeader(disagg.HeaderRoom, func(dst []byte) []byte {
		return strconv.AppendUint(dst, b.rooms[0], 10)
	})
	b.addHeader(disagg.HeaderPrefillRank, decimal(prefillRank))
}

// addHeader adds a field to both legs. A value stays where it was written when values grows.
func (b *bodyWriter) addHeader(name string, value func(dst []byte) []byte) {
	begin := len(b.values)
	b.values = value(b.values)
	b.shared = append(b.shared, upstream.Field{Key: name, Value: b.values[begin:len(b.values):len(b.values)]})
}

// leg makes the request for one rank. All others of the attempt have the same lines.
func (b *bodyWriter) leg(rank *worker.Rank, which leg, span *tracing.Attempt) upstream.Request {
	x, w, l, cfg := b.x, rank.Worker, &b.legs[which], b.x.h.live()
	l.extra = appendParent(x.appendKey(append(l.extra, b.shared...), w), span)
	l.splice(x, rank, b.fields)
	if len(b.lines) == 0 { // once: the two legs cannot both read the header
		b.lines = x.call.appendLines(b.lines, l.extra)
	}
	return upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS},
		Method: x.call.method(), Path: x.call.target(), Lines: b.lines, Extra: l.extra, Body: l.parts,
		HeaderTimeout: cfg.FirstByteTimeout, ReadTimeout: cfg.StallTimeout,
		Once:  x.inference, // the attempt sends it again, with another id and other rooms
		Fresh: x.mustBeFresh(),
	}
}

// splice puts fields into the body, and the rank there or into a header.
func (l *legWriter) splice(x *exchange, rank *worker.Rank, fields []byte) {
	body, inBody := x.call.body(), false
	if x.inference && len(rank.Worker.Ranks()) > 1 {
		if x.api != openai.APIGenerate {
			l.rank = strconv.AppendInt(l.rank, int64(rank.DPRank), 10)
			l.extra = append(l.extra, upstream.Field{Key: headerRank, Value: l.rank})
		} else if inBody = !x.rankInBody; inBody {
			if len(fields) > 0 {
				l.rank = append(l.rank, ',')
			}
			l.rank = disagg.AppendRank(l.rank, rank.DPRank)
		}
	}
	if len(fields) == 0 && !inBody {
		l.parts = append(l.parts, body)
		return
	}
	l.parts = openai.SpliceField(l.parts, body, fields)
	if inBody {
		l.parts = slices.Insert(l.parts, len(l.parts)-1, l.rank)
	}
}

// appendKey appends the key for a worker where the client has none of its own. The operators' key
// and those of clients are for this router, and no worker gets them.
func (x *exchange) appendKey(extra []upstream.Field, w *worker.Worker) []upstream.Field {
	key := w.Key().API()
	if x.h.Keys != nil { // in the place of the client's, also by Anthropic's API
		return append(extra, upstream.Field{Key: fasthttp.HeaderAuthorization, Value: key}, upstream.Field{Key: headerAPIKey})
	}
	if !x.answer.operator && (key == nil || len(x.call.peek(fasthttp.HeaderAuthorization)) > 0) {
		return extra
	}
	return append(extra, upstream.Field{Key: fasthttp.HeaderAuthorization, Value: key})
}

// mustBeFresh reports whether the request cannot be sent again where a kept-alive connection was
// closed: it is sent once only, or its id is the client's own, which SGLang refuses while it still
// has it, or it opens a session.
func (x *exchange) mustBeFresh() bool {
	return x.prompt.turn.once || x.id.kept || string(x.call.path()) == pathOpenSession
}

// reset forgets the request; buffers up to maxPooledBody stay.
func (b *bodyWriter) reset() {
	b.lines, b.fields, b.values = emptied(b.lines), emptied(b.fields), emptied(b.values)
	clear(b.shared)
	b.shared, b.rooms = b.shared[:0], b.rooms[:0]
	for i := range b.legs {
		l := &b.legs[i]
		clear(l.parts)
		clear(l.extra)
		l.parts, l.extra, l.rank = l.parts[:0], l.extra[:0], l.rank[:0]
	}
}

// maxPooledBody bounds each buffer that a pooled exchange keeps of the requests to workers.
const maxPooledBody = 1 << 20

// emptied returns a buffer without its content, or nil for a large one.
func emptied(b []byte) []byte {
	if cap(b) > maxPooledBody {
		return nil
	}
	return b[:0]
}
