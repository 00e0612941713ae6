package sim

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// job is one client request: prompts × n sequences, and the format of the answer.
type job struct {
	id       string // of the answer
	model    string
	stream   bool
	usage    bool // stream_options.include_usage
	every    bool // stream_options.continuous_usage_stats
	echo     bool
	logprobs bool  // return_logprob, or OpenAI's logprobs
	logFrom  []int // /generate: logprob_start_len, one or one a prompt
	top      int   // alternatives for each token
	batch    bool  // a list of prompts: one id for all, with a number for each
	list     bool  // /generate: the answer is a list even of one sequence
	wantIDs  bool  // x-sglext-return-input-ids
	n        int   // sequences a prompt
	rank     *rank // named by the client, else nil
	pair     pairing
	whole    bool // no leg in any mode: the worker's own health check
	late     requestFault
	number   []byte // See [process.journal].
	born     time.Time
	jobClient
	reqs []*request // prompt-major: n of the first prompt come first
}

// sampling holds the sampling parameters of a request.
type sampling struct {
	max  int // -1: up to the context length
	n    int
	stop stopRules
}

// newID returns a random id like SGLang's, 32 hex digits.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// jobReader turns request bodies into jobs.
type jobReader struct {
	*process
	ranks  []*rank
	loaded *atomic.Pointer[modelWeights]
	turn   atomic.Uint32 // Of the rank that gets the next request.
}

// nextRank returns the rank for a request that names none: in turn, as in SGLang.
func (b *jobReader) nextRank() *rank {
	return b.ranks[int(b.turn.Add(1)-1)%len(b.ranks)]
}

// noteModel counts a request for a model that this process does not serve.
func (b *jobReader) noteModel(model string) {
	if w := b.loaded.Load(); model != "default" && model != b.cfg.Model && model != w.name {
		b.faults.wrongModel.Add(1)
	}
}

// build makes the sequences of a job from its prompts.
func (b *jobReader) build(j *job, prompts [][]uint32, ids []string, s domain, p []sampling) error {
	j.wake = make(chan struct{}, 1)
	if err := j.pair.check(len(prompts)); err != nil {
		return err
	}
	turn := j.rank
	if turn == nil {
		turn = b.nextRank()
	}
	for i, prompt := range prompts {
		sp := p[min(i, len(p)-1)]
		if err := b.checkLength(len(prompt), sp.max); err != nil {
			return err
		}
		from := pick(j.logFrom, i, -1)
		if from > len(prompt) {
			return refused("req.logprob_start_len=%d is higher than the number of input tokens len(req.origin_input_ids)=%d. "+
				"Please use a smaller logprob_start_len.", from, len(prompt))
		}
		for k := range j.n {
			r := b.newRequest(j, j.idOf(ids, i, k), prompt, s, sp)
			if r.logFrom = len(prompt); j.logprobs && from >= 0 {
				r.logFrom = from
			}
			r.leg, r.home = j.pair.leg(len(j.reqs), i, b.cfg.BootstrapPort), turn
			b.plan(j, r)
			j.reqs = append(j.reqs, r)
		}
	}
	return nil
}

// idOf returns the id of answer k to prompt i. SGLang numbers the sequences of a batch with one
// id, and makes new ids for further answers to a prompt.
func (j *job) idOf(ids []string, i, k int) string {
	switch {
	case k > 0 || len(ids) == 0:
		return newID()
	case j.batch && len(ids) == 1:
		return ids[0] + "_" + strconv.Itoa(i)
	case i < len(ids):
		return ids[i]
	}
	return newID()
}

// maxTop bounds the alternatives that OpenAI's clients may request for each token.
const maxTop = 20

// plan decides r's answer, and this worker's part of it.
func (b *jobReader) plan(j *job, r *request) {
	r.plan()
	if r.leg == nil || b.cfg.Mode != ModePrefill {
		return
	}
	r.planned = 1
	if j.rank == nil {
		r.home = b.ranks[int(r.leg.room%int64(len(b.ranks)))]
	}
}

// checkLength refuses requests beyond the context length, in SGLang's words.
func (b *jobReader) checkLength(prompt, answer int) error {
	limit := b.cfg.ContextLength
	switch {
	case prompt == 0:
		return refused("input_ids cannot be empty.")
	case prompt >= limit:
		return refused("The input (%d tokens) is longer than the model's context length (%d tokens).", prompt, limit)
	case prompt > b.cfg.maxInput():
		return refused("Input length (%d tokens) exceeds the maximum allowed length (%d tokens). "+
			"Use a shorter input or enable --allow-auto-truncate.", prompt, b.cfg.maxInput())
	case answer >= 0 && prompt+answer > limit:
		return refused("Requested token count exceeds the model's maximum context length of %d tokens. "+
			"You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. "+
			"Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			limit, prompt+answer, prompt, answer)
	}
	return nil
}

func (b *jobReader) newRequest(j *job, id string, prompt []uint32, s domain, p sampling) *request {
	r := &request{
		id: id, domain: s, prompt: prompt,
		budget:   b.cfg.maxTotal() - len(prompt) - 1,
		stop:     p.stop,
		stream:   j.stream,
		wake:     j.wake,
		progress: progress{times: times{received: j.born}},
	}
	if p.max >= 0 {
		r.budget = min(r.budget, p.max)
	}
	r.budget = max(0, r.budget)
	return r
}

// pickRank returns the rank that a job names, or nil.
func (b *jobReader) pickRank(o *object, header []byte) *rank {
	want := o.number("routed_dp_rank", o.number("data_parallel_rank", -1))
	if len(header) > 0 { // It precedes the body.
		var err error
		if want, err = fasthttp.ParseUint(header); err != nil {
			o.fail(refused("Invalid X-Data-Parallel-Rank header: must be an integer, got '%s'", header))
		}
	}
	switch {
	case want == -1:
		return nil
	case want < 0 || want >= len(b.ranks):
		o.fail(refused("routed_dp_rank=%d out of range [0, %d)", want, len(b.ranks)))
		return nil
	}
	return b.ranks[want]
}

// domainOf returns the domain that a request names.
func domainOf(o *object) domain {
	return domain{salt: o.text("cache_salt", ""), extraKey: o.text("extra_key", ""), lora: o.text("lora_path", "")}
}

// parseSampling reads the fields that sampling_params of /generate and the OpenAI bodies share.
func parseSampling(o *object) sampling {
	p := sampling{max: -1, n: o.number("n", 1)}
	if p.n < 1 || p.n > 128 {
		o.fail(refused("n should be at least 1, got %d.", p.n))
	}
	p.stop.ignoreEOS, p.stop.keep = o.flag("ignore_eos"), o.flag("no_stop_trim")
	for _, stop := range o.texts("stop") {
		if stop != "" {
			p.stop.texts = append(p.stop.texts, []byte(stop))
		}
	}
	o.fail(checkBias(o))
	if o.raw("stop_token_ids") != nil {
		p.stop.ids = o.ids("stop_token_ids")
	}
	return p
}

// limit reads the length of an answer.
func (p *sampling) limit(o *object, key string, def int) {
	if p.max = o.number(key, def); p.max < 0 {
		o.fail(refused("max_new_tokens must be at least 0, got %d.", p.max))
	}
}

// echoed returns the prompt's text if the client has asked for echo.
func (j *job) echoed(i int) []byte {
	if !j.echo {
		return nil
	}
	return decoded(j.reqs[i].prompt)
}

// checkBias refuses a logit_bias as SGLang does; the error contains the size of the vocabulary.
func checkBias(o *object) error {
	raw := o.raw("logit_bias")
	if raw == nil {
		return nil
	}
	bias := parseObject(raw)
	if bias.err != nil {
		return invalid("dict_type", "logit_bias", "Input should be a valid dictionary")
	}
	for _, f := range bias.fields {
		key := string(f.key)
		if id, err := strconv.Atoi(key); err != nil || id < 0 || id >= vocabularySize {
			return refused("logit_bias must has keys in [0, %d], got %s.", vocabularySize-1, key)
		}
	}
	return nil
}
