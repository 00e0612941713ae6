package request

import (
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// minLogBlock is the fewest tokens that an id of the access log stands for. With pages of one
// token, SGLang's default, the line of a prompt of 12,000 tokens would have 240 KB.
const minLogBlock = 16

// record writes a request to the access log, if there is one. refusal is the router's own answer;
// nil: it has given none.
func (x *exchange) record(usage openai.Usage, now time.Time, refusal *openai.Error) {
	log := x.h.AccessLog
	if log == nil || !x.inference && refusal == nil {
		return
	}
	line := log.Begin()
	if line == nil {
		return
	}
	p := &x.choice.prompt
	line.Name = append(line.Name, x.call.name()...)
	line.Arrived, line.Took, line.Status = x.started, now.Sub(x.started), x.answer.status
	line.Input, line.Output, line.Cached = p.Len()+p.Rest, usage.CompletionTokens, -1
	line.Model, line.Block, line.Key = clip(p.Model), minLogBlock, x.credential.name()
	if refusal != nil {
		nameRefusal(line, x.call, x.h.live().Proxies, refusal)
	}
	if usage.HasPrompt {
		line.Input = usage.PromptTokens
	}
	if usage.HasCached {
		line.Cached = usage.CachedTokens
	}
	if !x.answer.firstAt.IsZero() {
		line.TTFT = x.answer.firstAt.Sub(x.started)
	}
	nameWorkers(line, &x.choice.decision)
	nameTurn(line, x.h.Router.Known, &x.choice)
	if x.prompt.complete() {
		line.Input = len(p.Tokens)
		x.nameBlocks(line, p.Tokens)
	}
	log.Commit(line)
}

// recordRefusal writes a request that no worker has answered. refusal is as in record.
func (x *exchange) recordRefusal(refusal *openai.Error) {
	x.answer.status = x.call.ctx.Response.StatusCode()
	x.record(openai.Usage{}, time.Now(), refusal)
}

// logRefusal writes a request that was refused before it became an exchange.
func (h *Handler) logRefusal(ctx *fasthttp.RequestCtx, refusal *openai.Error) {
	if h.AccessLog == nil {
		return
	}
	line := h.AccessLog.Begin()
	if line == nil {
		return
	}
	c := call{ctx}
	line.Name = append(line.Name, c.name()...)
	line.Arrived, line.Status, line.Block, line.Cached = ctx.Time(), refusal.Status, minLogBlock, -1
	if line.Arrived.IsZero() { // bytes that no request begins with
		line.Arrived = time.Now()
	}
	line.Took = time.Since(line.Arrived)
	if refusal.Status != fasthttp.StatusUnauthorized {
		if key, err := h.ClientKey(ctx); err == nil && key != nil {
			line.Key = key.Name
		}
	}
	nameRefusal(line, c, h.live().Proxies, refusal)
	h.AccessLog.Commit(line)
}

// nameRefusal fills in the client and the cause of a refusal.
func nameRefusal(line *accesslog.Entry, c call, proxies worker.Networks, refusal *openai.Error) {
	line.Refused, line.Client, line.Path = refusal.Cause(), c.sender(proxies), append(line.Path, clip(c.path())...)
}

// maxLogText bounds texts of clients in a line.
const maxLogText = 256

func clip[S string | []byte](text S) S { return text[:min(len(text), maxLogText)] }

// nameWorkers fills in the ranks of a decision.
func nameWorkers(line *accesslog.Entry, d *routing.Decision) {
	rank := d.Rank
	if rank == nil {
		return
	}
	line.Worker, line.Rank, line.Expected = rank.Worker.URL, rank.DPRank, d.Cached
	if info := rank.Worker.Info(); info != nil {
		line.Model, line.Block = info.Model(), logBlock(info)
	}
	if decode := d.Decode; decode != nil { // the answering worker, as in the answer's header
		line.Prefill, line.PreRank = line.Worker, line.Rank
		line.Worker, line.Rank = decode.Worker.URL, decode.DPRank
	}
}

// nameTurn fills in the session.
func nameTurn(line *accesslog.Entry, k *routing.KnownSessions, c *choice) {
	turn := &c.decision.Turn
	switch {
	case turn.Session != 0:
		line.Session, line.Branch = k.ID(turn.Session), k.ID(uint64(turn.ID))
		line.Turn = turn.Kind.String()
	case c.prompt.Session != 0:
		line.Session = k.ID(c.prompt.Session)
	}
}

// nameBlocks fills in the ids of the prompt's blocks: the index's hashes of their tokens without
// the highest bit, since many readers of JSON have signed numbers.
func (x *exchange) nameBlocks(line *accesslog.Entry, tokens []uint32) {
	index := x.h.Index
	whole := len(tokens) / line.Block * line.Block
	x.blocks = index.AppendHashes(x.blocks[:0], tokens[:whole], line.Block)
	if rest := tokens[whole:]; len(rest) > 0 {
		x.blocks = index.AppendHashes(x.blocks, rest, len(rest))
	}
	for _, h := range x.blocks {
		line.IDs = append(line.IDs, uint64(h)>>1)
	}
}

// logBlock returns the least multiple of the worker's page size that is at least minLogBlock.
func logBlock(info *worker.Info) int {
	page := max(info.PageSize, 1)
	if info.Events != nil && info.Events.BlockSize > 0 {
		page = info.Events.BlockSize
	}
	return (minLogBlock + page - 1) / page * page
}

// beginTrace begins the trace of a request; nil where there is no tracing. Then a worker gets the
// client's traceparent and tracestate as they came, like any field.
func beginTrace(t *tracing.Tracer, c call, now time.Time) *tracing.Request {
	if t == nil {
		return nil
	}
	return t.Begin(&c.ctx.Request.Header, routeOf(string(c.path())), now)
}

// routeOf returns a path without the name or the id in it.
func routeOf(path string) string {
	if strings.HasPrefix(path, pathModels) {
		return pathModels + "{model}"
	}
	if _, rest, ok := responsePath([]byte(path)); ok {
		return strings.TrimSuffix(pathResponses+"/{id}/"+rest, "/")
	}
	return path
}

// endTrace ends the trace of the exchange.
func (x *exchange) endTrace() {
	if x.trace != nil {
		x.trace.End(x.answer.status, x.call.name(), x.choice.prompt.Model)
	}
}

// appendParent appends the fields that make the worker's spans children of an attempt's. A worker
// that gets a parent gets no other's state.
func appendParent(extra []upstream.Field, span *tracing.Attempt) []upstream.Field {
	parent, state := span.Parent()
	if parent == nil {
		return extra
	}
	return append(extra, upstream.Field{Key: tracing.HeaderParent, Value: parent}, upstream.Field{Key: tracing.HeaderState, Value: state})
}
