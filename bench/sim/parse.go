package sim

import (
	"math"
	"time"

	"github.com/valyala/fasthttp"
)

// generateJob reads the body of /generate. With an error the job may still be
// there, to say whether a stream was asked for.
func (b *jobReader) generateJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o, err := parseObject(ctx.PostBody())
	if err != nil {
		return nil, err
	}
	j := &job{born: time.Now(), n: 1}
	prompts, list, err := generatePrompts(o)
	if err != nil {
		return nil, err
	}
	j.batch, j.list = list, list
	params, err := generateSampling(o)
	if err != nil {
		return nil, err
	}
	if j.n = params[0].n; j.n > 1 {
		j.list = true
	}
	if j.stream, err = o.flag("stream"); err != nil {
		return nil, err
	}
	if err = j.readLogprobs(o); err != nil {
		return nil, err
	}
	if j.rank, err = b.pickRank(o, nil); err != nil { // the header is for OpenAI's endpoints only
		return nil, err
	}
	if j.pair, err = b.pairingOf(o, &ctx.Request.Header); err != nil {
		return nil, err
	}
	ids, err := o.texts("rid")
	if err != nil {
		return nil, err
	}
	s, err := spaceOf(o)
	if err != nil {
		return nil, err
	}
	return j, b.build(j, prompts, ids, s, params)
}

func (b *jobReader) completionsJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o, err := parseObject(ctx.PostBody())
	if err != nil {
		return nil, err
	}
	prompts, batch, err := completionPrompts(o)
	if err != nil {
		return nil, err
	}
	j, err := b.openAIJob(o, ctx)
	if err != nil {
		return nil, err
	}
	j.batch = batch
	p, err := samplingOf(o)
	if err != nil {
		return nil, err
	}
	if p.max, err = o.number("max_tokens", completionsDefault); err != nil {
		return nil, err
	}
	if p.max < 0 {
		return nil, refused("max_new_tokens must be at least 0, got %d.", p.max)
	}
	if j.echo, err = o.flag("echo"); err != nil {
		return nil, err
	}
	if err = j.readCompletionLogprobs(o); err != nil {
		return nil, err
	}
	j.n = p.n
	return j, b.finishOpenAI(j, o, prompts, p)
}

func (b *jobReader) chatJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o, err := parseObject(ctx.PostBody())
	if err != nil {
		return nil, err
	}
	j, err := b.openAIJob(o, ctx)
	if err != nil {
		return nil, err
	}
	j.wantIDs = len(ctx.Request.Header.Peek("x-sglext-return-input-ids")) > 0
	prompt, err := chatPrompt(o)
	if err != nil {
		return nil, err
	}
	p, err := samplingOf(o)
	if err != nil {
		return nil, err
	}
	if p.max, err = o.number("max_completion_tokens", -1); err == nil && p.max < 0 {
		p.max, err = o.number("max_tokens", -1)
	}
	if err != nil {
		return nil, err
	}
	if limit := b.cfg.ContextLength; p.max > limit {
		return nil, refused("max_completion_tokens is too large: %d."+
			"This model supports at most %d completion tokens.", p.max, limit)
	}
	if j.logprobs, err = o.flag("logprobs"); err != nil {
		return nil, err
	}
	if j.top, err = o.number("top_logprobs", 0); err != nil {
		return nil, err
	}
	j.top = min(maxTop, max(0, j.top))
	j.n = p.n
	return j, b.finishOpenAI(j, o, [][]uint32{prompt}, p)
}

// openAIJob reads the fields that both OpenAI endpoints have.
func (b *jobReader) openAIJob(o object, ctx *fasthttp.RequestCtx) (j *job, err error) {
	j = &job{born: time.Now()}
	if j.model, err = o.text("model", "default"); err != nil {
		return nil, err
	}
	b.noteModel(j.model)
	if j.stream, err = o.flag("stream"); err != nil {
		return nil, err
	}
	if raw := o.raw("stream_options"); raw != nil {
		options, err := parseObject(raw)
		if err != nil {
			return nil, invalid("dict_type", "stream_options", "Input should be a valid dictionary")
		}
		if j.usage, err = options.flag("include_usage"); err != nil {
			return nil, err
		}
		if j.every, err = options.flag("continuous_usage_stats"); err != nil {
			return nil, err
		}
	}
	if j.rank, err = b.pickRank(o, ctx.Request.Header.Peek("X-Data-Parallel-Rank")); err != nil {
		return nil, err
	}
	j.pair, err = b.pairingOf(o, &ctx.Request.Header)
	return j, err
}

// finishOpenAI builds a job's sequences. The answer's id is that of the first.
func (b *jobReader) finishOpenAI(j *job, o object, prompts [][]uint32, p sampling) error {
	ids, err := o.texts("rid")
	if err != nil {
		return err
	}
	s, err := spaceOf(o)
	if err != nil {
		return err
	}
	if err := b.build(j, prompts, ids, s, []sampling{p}); err != nil {
		return err
	}
	j.id = j.reqs[0].id
	return nil
}

// pairingOf reads the bootstrap fields of a body and the headers that override them.
func (b *jobReader) pairingOf(o object, h *fasthttp.RequestHeader) (p pairing, err error) {
	if b.cfg.Mode == "" {
		return p, nil
	}
	if p.hosts, err = o.texts("bootstrap_host"); err != nil {
		return p, err
	}
	ports, _, err := wholeNumbers(o, "bootstrap_port", bootstrapDefault)
	if err != nil {
		return p, err
	}
	for _, port := range ports {
		p.ports = append(p.ports, int(min(port, math.MaxInt32)))
	}
	if p.rooms, p.whole, err = wholeNumbers(o, "bootstrap_room", -1); err != nil {
		return p, err
	}
	if p.rank, err = o.number("disagg_prefill_dp_rank", -1); err != nil || !b.cfg.HeaderOverrides {
		return p, err
	}
	return p, p.override(h)
}

// readLogprobs reads what /generate's clients ask of log probabilities.
func (j *job) readLogprobs(o object) (err error) {
	if j.logprobs, err = o.flag("return_logprob"); err != nil {
		j.logprobs = o.raw("return_logprob")[0] == '[' // one for each prompt
	}
	from, _, err := wholeNumbers(o, "logprob_start_len", -1)
	if err != nil {
		return err
	}
	for _, n := range from {
		j.logFrom = append(j.logFrom, int(n))
	}
	top, _, err := wholeNumbers(o, "top_logprobs_num", 0)
	if j.logprobs {
		j.top = int(min(maxTop, max(0, pick(top, 0, 0))))
	}
	return err
}

// readCompletionLogprobs reads logprobs: a number of alternatives. Those of the prompt
// come with echo and one alternative or more.
func (j *job) readCompletionLogprobs(o object) (err error) {
	if j.logprobs = o.raw("logprobs") != nil; !j.logprobs {
		return nil
	}
	j.top, err = o.number("logprobs", 0)
	if j.top = min(maxTop, max(0, j.top)); j.echo && j.top > 0 {
		j.logFrom = []int{0}
	}
	return err
}
