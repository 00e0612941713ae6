package request

import (
	"strconv"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// headerRank names a data-parallel rank to SGLang's OpenAI routes.
const headerRank = "X-Data-Parallel-Rank"

// pairHeaders are the router's to say to pairs: a client's own would part the legs.
var pairHeaders = []upstream.Field{
	{Key: headerRank},
	{Key: disagg.HeaderRID},
	{Key: disagg.HeaderHost},
	{Key: disagg.HeaderPort},
	{Key: disagg.HeaderRoom},
	{Key: disagg.HeaderRank},
	{Key: disagg.HeaderPrefillRank},
}

// legMemory is what the two legs' requests of one attempt are made of.
type legMemory struct {
	lines  []byte // the client's header
	fields []byte // of the body, the same for both
	values []byte // of headers, the same for both
	shared []upstream.Field
	rooms  []uint64
	legs   [2]struct {
		parts [][]byte
		extra []upstream.Field
		rank  []byte
	}
}

// reset forgets the request; memory that is not too much is kept.
func (m *legMemory) reset() {
	m.lines, m.fields, m.values = emptied(m.lines), emptied(m.fields), emptied(m.values)
	clear(m.shared)
	m.shared, m.rooms = m.shared[:0], m.rooms[:0]
	for i := range m.legs {
		leg := &m.legs[i]
		clear(leg.parts)
		clear(leg.extra)
		leg.parts, leg.extra, leg.rank = leg.parts[:0], leg.extra[:0], leg.rank[:0]
	}
}

// composePair makes the requests for both ranks: the client's bytes, with what the router has to say as the last members of
// the body. There it wins over members of the same names, which clients have that knew SGLang's own load balancer.
func (e *exchange) composePair(c call) {
	l, d := e.leg, &e.decision
	l.reset()
	l.events, l.keep = e.req.Stream, e.req.PromptLogprobs
	m := &l.memory
	m.lines = c.appendLines(m.lines, pairHeaders) // once: it cannot be read by two
	ranks, prompts, prefill := len(d.Rank.Worker.Ranks()), 1, -1
	if e.req.Batch {
		prompts = e.req.Prompts
	}
	if ranks > 1 {
		prefill = d.Rank.DPRank
	}
	m.rooms = e.s.rooms.Append(m.rooms, prompts, d.Rank.DPRank, ranks)
	at := d.Rank.Worker.Bootstrap()
	headers := e.s.live().Pair.Headers && e.api == openai.APIChat
	if headers {
		m.headers(e.field, e.rid, at, prefill)
	} else {
		m.fields = append(m.fields, e.field...)
	}
	if e.own.forward {
		m.next()
		m.fields = tokens.AppendField(m.fields, e.own.ids)
	}
	if !headers {
		m.next()
		m.fields = disagg.AppendFields(m.fields, at.Host, at.Port, m.rooms, e.req.Batch)
		if prefill >= 0 {
			m.next()
			m.fields = disagg.AppendPrefillRank(m.fields, prefill)
		}
	}
	l.request = e.legRequest(c, d.Rank, 0, e.s.live().Pair.PrefillTimeout)
	e.upstream = e.legRequest(c, d.Decode, 1, e.s.live().FirstByteTimeout)
}

// next parts what is in fields from what comes.
func (m *legMemory) next() {
	if len(m.fields) > 0 {
		m.fields = append(m.fields, ',')
	}
}

// headers says in headers what bodies say else. ours is not empty where the request's id is the router's own.
func (m *legMemory) headers(ours, rid []byte, at worker.Bootstrap, prefill int) {
	if len(ours) > 0 {
		m.header(disagg.HeaderRID, func(dst []byte) []byte { return append(dst, rid...) })
	}
	m.header(disagg.HeaderHost, func(dst []byte) []byte { return disagg.AppendHost(dst, at.Host) })
	m.header(disagg.HeaderPort, func(dst []byte) []byte { return strconv.AppendInt(dst, int64(at.Port), 10) })
	m.header(disagg.HeaderRoom, func(dst []byte) []byte { return strconv.AppendUint(dst, m.rooms[0], 10) })
	if prefill >= 0 {
		m.header(disagg.HeaderPrefillRank, func(dst []byte) []byte { return strconv.AppendInt(dst, int64(prefill), 10) })
	}
}

// header adds one to both legs. A value stays where it was written when values grows.
func (m *legMemory) header(name string, value func(dst []byte) []byte) {
	begin := len(m.values)
	m.values = value(m.values)
	m.shared = append(m.shared, upstream.Field{Key: name, Value: m.values[begin:len(m.values):len(m.values)]})
}

// legRequest makes one leg's request: 0 is the prefill worker's.
func (e *exchange) legRequest(c call, rank *worker.Rank, which int, wait time.Duration) upstream.Request {
	m, w := &e.leg.memory, rank.Worker
	leg := &m.legs[which]
	leg.extra = append(leg.extra, m.shared...)
	body := c.body()
	if len(m.fields) > 0 {
		leg.parts = openai.SpliceField(leg.parts, body, m.fields)
	} else {
		leg.parts = append(leg.parts, body)
	}
	if len(w.Ranks()) > 1 && !e.req.HasRank {
		if e.api != openai.APIGenerate {
			leg.rank = strconv.AppendInt(leg.rank, int64(rank.DPRank), 10)
			leg.extra = append(leg.extra, upstream.Field{Key: headerRank, Value: leg.rank})
		} else { // fields are never empty: they go behind
			leg.rank = disagg.AppendRank(append(leg.rank, ','), rank.DPRank)
			end := leg.parts[len(leg.parts)-1]
			leg.parts = append(leg.parts[:len(leg.parts)-1], leg.rank, end)
		}
	}
	read := e.s.live().StallTimeout
	if which == 0 {
		read = wait // it says nothing until the prompt is computed and sent, but for the header of a stream
	}
	return upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS}, Method: c.method(), Path: c.target(),
		Lines: m.lines, Extra: leg.extra, Body: leg.parts, HeaderTimeout: wait, ReadTimeout: read,
		Once:  true, // its rooms are the attempt's own
		Fresh: e.trial.turn != nil,
	}
}
