package request

import (
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/radix"
)

// minLogBlock is the fewest tokens that an id of the access log stands for. With pages of one
// token, SGLang's default, the line of a prompt of 12,000 tokens would have 240 KB.
const minLogBlock = 16

// accessRecord writes requests to the access log.
type accessRecord struct {
	blocks []radix.Hash // of the prompt
}

// write writes a request to the access log, if there is one.
func (r *accessRecord) write(x *exchange, usage openai.Usage, now time.Time) {
	log := x.h.AccessLog
	if log == nil || !x.inference {
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
	line.Model, line.Block, line.Key = p.Model, minLogBlock, x.credential.name()
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
	if p.Exact && !p.Opaque && !x.prompt.several() {
		line.Input = len(p.Tokens)
		r.nameBlocks(line, x.h.Index, p.Tokens)
	}
	log.Commit(line)
}

// refused writes a request that no worker has answered.
func (r *accessRecord) refused(x *exchange) {
	x.answer.status = x.call.ctx.Response.StatusCode()
	r.write(x, openai.Usage{}, time.Now())
}

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
func (r *accessRecord) nameBlocks(line *accesslog.Entry, index *radix.Index, tokens []uint32) {
	whole := len(tokens) / line.Block * line.Block
	r.blocks = index.AppendHashes(r.blocks[:0], tokens[:whole], line.Block)
	if rest := tokens[whole:]; len(rest) > 0 {
		r.blocks = index.AppendHashes(r.blocks, rest, len(rest))
	}
	for _, h := range r.blocks {
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
