package request

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

const (
	// maxPooledText bounds the text that a pooled exchange keeps.
	maxPooledText = 1 << 20
	// maxPooledIDs bounds the token ids that it keeps.
	maxPooledIDs = 1 << 16
	// bytesPerToken is the average of English text and of JSON; the estimate only has to order
	// prompts by size.
	bytesPerToken = 4
)

// promptReader makes a routing.Prompt of a request's body.
type promptReader struct {
	x      *exchange
	cursor *promptcache.Cursor // of the client's token ids; nil: ids are read from their beginning
	text   []byte              // of a chat
	local  localTokens
	turn   turn
}

// localTokens are token ids that were made in this process.
type localTokens struct {
	writer   *tokens.Writer
	cursor   *promptcache.Cursor
	ids      []uint32
	borrowed tokens.Prompt // a worker's ids, where the choice rests on those
	model    *tokens.Model // that made the ids which the choice rests on; nil where others did
	forward  bool          // the worker gets the ids and need not tokenize
	proof    *tokens.Proof // of the conversion that the ids rest on; nil for OpenAI's own APIs
	made     int           // number of ids of a converted chat
}

func (p *promptReader) init(x *exchange) {
	p.x = x
	if h := x.h; h.PromptCache != nil && h.Router.Policy().Needs().Has(policy.NeedsOverlap) {
		p.cursor = h.PromptCache.NewCursor()
		x.req.Memory = p.cursor
		p.local.cursor = h.PromptCache.NewCursor()
		p.local.writer = tokens.NewWriter(p.local.cursor)
	}
}

// read fills in the prompt of the exchange's request.
func (p *promptReader) read(out *routing.Prompt) {
	x, req := p.x, &p.x.req
	several := p.several()
	// Of a chat with media the text is known, in which a checksum stands for each medium.
	media := req.Multimodal && conversions[req.API] == nil && (req.API != openai.APIChat || req.HasIDs)
	*out = routing.Prompt{
		Model: req.Model, LoRA: adapterOf(req), Salt: req.CacheSalt, ExtraKey: req.ExtraKey,
		Opaque:   media || several && req.Shared == 0,
		Worker:   p.turn.holder,
		Estimate: len(x.call.body()) / bytesPerToken, DP: -1,
		Output:   req.MaxTokens * req.N * req.Prompts,
		Computed: req.Computed, ComputedFrom: req.ComputedFrom,
	}
	if req.HasRank {
		out.DP = req.Rank
	}
	if !x.inference && !req.HasBody() {
		p.readPath(out)
	}
	nameSession(out, x.call, req)
	if !x.inference && isTokenizer(string(x.call.path())) {
		out.Estimate = 0 // it computes nothing
	}
	switch {
	case !x.inference || several && out.Opaque:
		return
	case several && req.HasIDs: // several prompts go by their common beginning
		out.Tokens, out.Exact, out.Rest = req.InputIDs[:req.Shared], true, req.Rest
		return
	case several: // the ids of a part of a text are not the beginning of its ids
		out.Text = req.Text[:req.Shared]
		return
	}
	if req.HasIDs {
		out.Tokens, out.Exact = req.InputIDs, true
		if p.cursor != nil && !req.Batch { // which does not read lists of lists
			out.Hashes, out.Block = p.cursor.Chain()
		}
		return
	}
	needs := x.h.Router.Policy().Needs()
	if out.Opaque || needs == 0 {
		return
	}
	if !needs.Has(policy.NeedsTokens) || !p.tokenize(out) {
		out.Text = p.promptText()
		out.Estimate = len(out.Text) / bytesPerToken
	}
}

// readPath fills in the model of a request without a body. A request for a model's description
// names it in the path; a name that no worker has is any worker's to refuse.
func (p *promptReader) readPath(out *routing.Prompt) {
	path := string(p.x.call.path())
	switch name, _ := strings.CutPrefix(path, pathModels); {
	case name != path && slices.ContainsFunc(p.x.h.Registry.Snapshot().Workers, func(w *worker.Worker) bool {
		return w.Info() != nil && slices.Contains(w.Info().Models, name)
	}):
		out.Model = name
	case path == "/model_info", path == "/get_model_info":
		out.AnyModel = p.x.call.ctx.IsOptions()
	default:
		out.AnyModel = true
	}
}

// several reports whether the request has more than one prompt. A list of one is a prompt.
func (p *promptReader) several() bool { return p.x.req.Batch && p.x.req.Prompts > 1 }

// complete reports whether the ids of the choice's prompt are all that the engine computes for it.
func (p *promptReader) complete() bool {
	prompt := &p.x.choice.prompt
	return prompt.Exact && !prompt.Opaque && !p.several()
}

// alone reports whether the engine counts the cached tokens of this prompt as they were when it
// came. Each of n answers finds the prompt of the one before, as do several prompts their common
// beginning. A prompt with log probabilities is computed again in spite of the cache, and a
// session's history stands before its prompt.
func (p *promptReader) alone() bool {
	req := &p.x.req
	return req.N <= 1 && !p.several() && !req.PromptLogprobs && len(req.SessionID) == 0
}

// adapterOf names the LoRA adapter: by its own field, or behind the colon of the model.
func adapterOf(req *openai.Request) string {
	if req.LoRA != "" {
		return req.LoRA
	}
	_, adapter := openai.SplitModel(req.Model, "")
	return adapter
}

// tokenize gets the prompt's ids where they help the choice more than text: made in this process
// once the model's ids are proved, else by a worker.
func (p *promptReader) tokenize(out *routing.Prompt) bool {
	h, req, local := p.x.h, &p.x.req, &p.local
	// Images of converted chats are checksums: such prompts are known by their text.
	if h.Tokenizer == nil || req.Approximate || req.Multimodal {
		return false
	}
	target := anyWorker(h.Registry, out.Model)
	if target == nil {
		return false
	}
	name := target.Info().Model()
	if !h.Router.NeedsTokens(name) {
		return false
	}
	m := h.Models.Find(name)
	fresh, made := local.make(m, req)
	if made && m.Verified(req) {
		local.model = m
		out.Tokens, out.Exact = local.ids, true
		if !fresh {
			out.Hashes, out.Block = local.cursor.Chain()
		}
		local.forward = h.live().ForwardIDs && tokens.Forwardable(req)
		h.Models.Sample(m, target.URL, req, local.ids)
		return p.proved(out, name)
	}
	ids, err := h.Tokenizer.Prompt(nil, target.URL, req)
	if err != nil {
		return false
	}
	local.borrowed = ids
	if made {
		h.Models.Compare(m, req, local.ids, ids.IDs)
	}
	out.Tokens, out.Hashes, out.Block, out.Exact = ids.IDs, ids.Hashes, ids.Block, true
	return p.proved(out, name)
}

// proved reports whether the ids may be used. Those of a converted chat are used once the answers
// to others have proved the conversion by their number of prompt tokens.
func (p *promptReader) proved(out *routing.Prompt, model string) bool {
	req, local := &p.x.req, &p.local
	if conversions[req.API] == nil {
		return true
	}
	local.made = len(out.Tokens)
	if local.proof = p.x.h.proofs.of(model, req, p.turn.guess); local.proof.Proved() {
		return true
	}
	out.Tokens, out.Hashes, out.Block, out.Exact = nil, nil, 0, false
	return false
}

// make fills l.ids; fresh says that the cursor has no hashes of them.
func (l *localTokens) make(m *tokens.Model, req *openai.Request) (fresh, made bool) {
	if m == nil || l.writer == nil {
		return true, false
	}
	ids, fresh, err := l.writer.Append(l.ids[:0], m, req)
	l.ids = ids
	return fresh, err == nil
}

// checkLength compares the number of local ids with the prompt tokens that the worker reports.
func (p *promptReader) checkLength(usage openai.Usage) {
	if !usage.HasPrompt || p.x.req.N > 1 {
		return
	}
	if proof := p.local.proof; proof != nil {
		if proof.Compare(p.local.made, usage.PromptTokens); p.local.made != usage.PromptTokens {
			p.x.h.proofs.wrong(p.turn.model, p.turn.guess)
		}
	} else if p.local.model != nil {
		p.x.h.Models.CompareLength(p.local.model, &p.x.req, len(p.local.ids), usage.PromptTokens)
	}
}

// promptText returns the prompt as text, in the order in which the engine sees it; valid until the
// next call. A chat is the JSON of its tools and messages instead of its rendered template: equal
// beginnings stay equal, which is all that the approximate tree needs.
func (p *promptReader) promptText() []byte {
	req := &p.x.req
	if req.Messages == nil {
		return req.Text
	}
	if len(req.Tools) == 0 && !req.Multimodal && compact(req.Messages) {
		return req.Messages
	}
	p.text = appendCompact(p.text[:0], req.Tools, false)
	p.text = appendCompact(p.text, req.Messages, req.Multimodal)
	return p.text
}

func (p *promptReader) reset() {
	if cap(p.text) > maxPooledText {
		p.text = nil
	}
	p.turn.reset()
	l := &p.local
	l.borrowed.Release()
	l.borrowed = tokens.Prompt{}
	l.model, l.ids, l.forward, l.proof, l.made = nil, l.ids[:0], false, nil, 0
	if cap(l.ids) > maxPooledIDs {
		l.ids = nil
	}
}

// anyWorker returns a ready worker that serves the model, the less loaded of two; nil where none
// does.
func anyWorker(registry *worker.Registry, model string) *worker.Worker {
	var best *worker.Rank
	ranks := registry.Snapshot().Ranks
	if len(ranks) == 0 {
		return nil
	}
	first := rand.IntN(len(ranks))
	for seen, i := 0, 0; i < len(ranks) && seen < 2; i++ {
		r := ranks[(first+i)%len(ranks)]
		info := r.Worker.Info()
		if r.Worker.State() != worker.Ready || info == nil || !routing.Serves(info, model) {
			continue
		}
		seen++
		if best == nil || r.Load.InFlight() < best.Load.InFlight() {
			best = r
		}
	}
	if best == nil {
		return nil
	}
	return best.Worker
}
