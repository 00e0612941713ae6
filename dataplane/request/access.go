package request

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// leastBlock is the fewest tokens that an id of the access log stands for: with pages of one token, SGLang's default, a line of a
// prompt of 12,000 tokens would have 240 KB.
const leastBlock = 16

// record writes the request to the access log, if there is one.
func (e *exchange) record(usage openai.Usage, now time.Time) {
	log := e.s.AccessLog
	if log == nil || !e.inferred {
		return
	}
	line := log.Begin()
	if line == nil {
		return
	}
	line.Arrived, line.Took, line.Status = e.started, now.Sub(e.started), e.status
	line.Input, line.Output, line.Cached = e.prompt.Len(), usage.CompletionTokens, -1
	line.Model, line.Session, line.Block = e.prompt.Model, e.prompt.Session, leastBlock
	if usage.HasPrompt {
		line.Input = usage.PromptTokens
	}
	if usage.HasCached {
		line.Cached = usage.CachedTokens
	}
	if !e.firstAt.IsZero() {
		line.TTFT = e.firstAt.Sub(e.started)
	}
	if rank := e.decision.Rank; rank != nil {
		line.Worker, line.Rank, line.Expected = rank.Worker.URL, rank.DPRank, e.decision.Cached
		if info := rank.Worker.Info(); info != nil {
			line.Model, line.Block = info.Model(), logBlock(info)
		}
		if by := e.decision.Decode; by != nil { // as the headers have it
			line.Prefill, line.PreRank = line.Worker, line.Rank
			line.Worker, line.Rank = by.Worker.URL, by.DPRank
		}
	}
	if e.prompt.Exact && !e.prompt.Opaque {
		line.Input = len(e.prompt.Tokens)
		e.name(line)
	}
	log.Commit(line)
}

// name fills in the ids of the prompt's blocks: hashes of their tokens, as the index has them, without the highest bit, since many
// readers of JSON have signed numbers.
func (e *exchange) name(line *accesslog.Entry) {
	tokens := e.prompt.Tokens
	whole := len(tokens) / line.Block * line.Block
	e.names = e.s.Index.AppendHashes(e.names[:0], tokens[:whole], line.Block)
	if rest := tokens[whole:]; len(rest) > 0 {
		e.names = e.s.Index.AppendHashes(e.names, rest, len(rest))
	}
	for _, h := range e.names {
		line.IDs = append(line.IDs, uint64(h)>>1)
	}
}

// recordRefusal writes a request that no worker has answered.
func (e *exchange) recordRefusal(c call) {
	e.status = c.answer().Response.StatusCode()
	e.record(openai.Usage{}, time.Now())
}

// logBlock is the least multiple of the worker's pages that has enough tokens.
func logBlock(info *worker.Info) int {
	page := max(info.PageSize, 1)
	if info.Events != nil && info.Events.BlockSize > 0 {
		page = info.Events.BlockSize
	}
	return (leastBlock + page - 1) / page * page
}

// showAccessLog adds the metrics of the access log.
func (m *metrics) showAccessLog(l *accesslog.Log) {
	counter := func(name, help string, value func() uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "warmpath", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	counter("access_log_lines_total", "Lines written to the access log.", l.Written)
	counter("access_log_dropped_total", "Requests without a line in the access log: it could not be written as fast, or at all.", l.Dropped)
}
