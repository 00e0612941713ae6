package sim

import (
	"bytes"
	"math"
	"time"

	"github.com/valyala/fasthttp"
)

// generateJob reads the body of /generate. After an error of the prompt's length the job still
// tells whether a stream was requested.
func (b *jobReader) generateJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o := parseObject(ctx.PostBody())
	j := &job{born: time.Now()}
	prompts, list := generatePrompts(o)
	params := generateSampling(o)
	j.n, j.batch, j.list = params[0].n, list, list || params[0].n > 1
	j.stream = o.flag("stream")
	j.readLogprobs(o)
	j.rank = b.pickRank(o, nil) // the header is for OpenAI's endpoints only
	j.pair = b.pairingOf(o, &ctx.Request.Header)
	return b.finish(j, o, prompts, params...)
}

func (b *jobReader) completionsJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o := parseObject(ctx.PostBody())
	prompts, batch := completionPrompts(o)
	j := b.openAIJob(o, ctx)
	p := parseSampling(o)
	p.limit(o, "max_tokens", completionsDefault)
	j.batch, j.n, j.echo = batch, p.n, o.flag("echo")
	j.readCompletionLogprobs(o)
	return b.finish(j, o, prompts, p)
}

func (b *jobReader) chatJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o := parseObject(ctx.PostBody())
	j := b.openAIJob(o, ctx)
	j.wantIDs = len(ctx.Request.Header.Peek("x-sglext-return-input-ids")) > 0
	prompt := chatPrompt(o)
	p := parseSampling(o)
	if p.max = o.number("max_completion_tokens", -1); p.max < 0 {
		p.max = o.number("max_tokens", -1)
	}
	b.checkAnswer(o, p)
	j.n, j.logprobs, j.top = p.n, o.flag("logprobs"), min(maxTop, max(0, o.number("top_logprobs", 0)))
	return b.finish(j, o, [][]uint32{prompt}, p)
}

// checkAnswer refuses a longer answer than the context.
func (b *jobReader) checkAnswer(o *object, p sampling) {
	if limit := b.cfg.ContextLength; p.max > limit {
		o.fail(refused("max_completion_tokens is too large: %d.This model supports at most %d completion tokens.", p.max, limit))
	}
}

// openAIJob reads the fields common to OpenAI's endpoints.
func (b *jobReader) openAIJob(o *object, ctx *fasthttp.RequestCtx) *job {
	j := &job{born: time.Now(), model: o.text("model", "default")}
	if o.err == nil {
		b.noteModel(j.model)
	}
	j.stream = o.flag("stream")
	if raw := o.raw("stream_options"); raw != nil {
		options := parseObject(raw)
		if options.err != nil {
			options.err = invalid("dict_type", "stream_options", "Input should be a valid dictionary")
		}
		j.usage, j.every = options.flag("include_usage"), options.flag("continuous_usage_stats")
		o.fail(options.err)
	}
	j.rank = b.pickRank(o, ctx.Request.Header.Peek("X-Data-Parallel-Rank"))
	j.pair = b.pairingOf(o, &ctx.Request.Header)
	return j
}

// finish builds a job's sequences, unless its body has an error. The answer's id is that of the
// first.
func (b *jobReader) finish(j *job, o *object, prompts [][]uint32, p ...sampling) (*job, error) {
	ids, s := o.texts("rid"), domainOf(o)
	if o.err != nil {
		return nil, o.err
	}
	if err := b.build(j, prompts, ids, s, p); err != nil {
		return j, err
	}
	j.id = j.reqs[0].id
	return j, nil
}

// pairingOf reads the bootstrap fields of a body and the headers that override them.
func (b *jobReader) pairingOf(o *object, h *fasthttp.RequestHeader) (p pairing) {
	if b.cfg.Mode == "" {
		return p
	}
	p.hosts = o.texts("bootstrap_host")
	ports, _ := o.wholeNumbers("bootstrap_port", bootstrapDefault)
	for _, port := range ports {
		p.ports = append(p.ports, int(min(port, math.MaxInt32)))
	}
	p.rooms, p.whole = o.wholeNumbers("bootstrap_room", -1)
	p.rank = o.number("disagg_prefill_dp_rank", -1)
	if b.cfg.HeaderOverrides {
		o.fail(p.override(h))
	}
	return p
}

// readLogprobs reads the log probability fields of /generate.
func (j *job) readLogprobs(o *object) {
	raw := o.raw("return_logprob")
	j.logprobs = string(raw) == "true" || bytes.HasPrefix(raw, []byte{'['}) // one for each prompt
	from, _ := o.wholeNumbers("logprob_start_len", -1)
	for _, n := range from {
		j.logFrom = append(j.logFrom, int(n))
	}
	top, _ := o.wholeNumbers("top_logprobs_num", 0)
	if j.logprobs {
		j.top = int(min(maxTop, max(0, pick(top, 0, 0))))
	}
}

// readCompletionLogprobs reads logprobs, a number of alternatives. With echo and at least one
// alternative, the prompt has log probabilities too.
func (j *job) readCompletionLogprobs(o *object) {
	if j.logprobs = o.raw("logprobs") != nil; !j.logprobs {
		return
	}
	if j.top = min(maxTop, max(0, o.number("logprobs", 0))); j.echo && j.top > 0 {
		j.logFrom = []int{0}
	}
}
