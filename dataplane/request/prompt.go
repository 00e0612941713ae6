package request

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"

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
	x     *exchange
	text  []byte // of a chat
	local localTokens
	turn  turn
	// holder alone has the stored response or the open session that the request names; nil: any
	// worker will do.
	holder  *worker.Worker
	session string // that the request opens by this name, closes or continues; "": none
	opens   bool   // it opens one, and has no name for it
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
		p.local.cursor = h.PromptCache.NewCursor()
		p.local.writer = tokens.NewWriter(p.local.cursor)
	}
}

// read fills in the prompt of the exchange's request.
func (p *promptReader) read(out *routing.Prompt) {
	x, req := p.x, &p.x.req
	several := p.several()
	// Of a chat with media the text is known, in which a checksum stands for each medium.
	media := req.Multimodal && !converted(req.API) && (req.API != openai.APIChat || req.HasIDs)
	*out = routing.Prompt{
		Model: req.Model, LoRA: adapterOf(req), Salt: req.CacheSalt, ExtraKey: req.ExtraKey,
		Opaque:   media || several && req.Shared == 0,
		Worker:   p.holder,
		Estimate: len(x.call.body()) / bytesPerToken, DP: -1,
		Output:    req.MaxTokens * req.N * req.Prompts,
		MaxTokens: req.MaxTokens,
		Computed:  req.Computed, ComputedFrom: req.ComputedFrom,
	}
	if req.HasRank {
		out.DP = req.Rank
	}
	if !x.inference && !req.HasBody() {
		p.readPath(out)
	}
	nameSession(out, x.call, req)
	if path := string(x.call.path()); !x.inference && (isTokenizer(path) || path == pathTranscriptions || isSession(path)) {
		out.Estimate = 0 // it has no prompt: it is computed outside the model, or is audio
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
	if !converted(req.API) {
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
	p.holder, p.session, p.opens = nil, "", false
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

// compact reports whether valid JSON has no white space between its parts.
func compact(raw []byte) bool {
	for i := 0; i < len(raw); {
		switch raw[i] {
		case ' ', '\t', '\n', '\r':
			return false
		case '"':
			i = openai.StringEnd(raw, i)
		default:
			i++
		}
	}
	return true
}

// appendCompact appends valid JSON without the white space between its parts: clients write it as
// their libraries do. media has checksums stand for the bytes of images, audio, video and files:
// two chats with the same ones are equal, and megabytes of them are no text.
func appendCompact(dst, raw []byte, media bool) []byte {
	for i := 0; i < len(raw); {
		switch c := raw[i]; c {
		case ' ', '\t', '\n', '\r':
			i++
		case '"':
			end := openai.StringEnd(raw, i)
			if text := raw[i:end]; media && isMedium(text) {
				dst = append(openai.AppendChecksum(append(dst, '"'), text), '"')
			} else {
				dst = append(dst, text...)
			}
			i = end
		default:
			dst = append(dst, c)
			i++
		}
	}
	return dst
}

// leastMedium is the least size of a medium in bytes: shorter strings are as well known by
// themselves.
const leastMedium = 512

// isMedium reports whether a JSON string is a data URL or base64.
func isMedium(text []byte) bool {
	if len(text) < leastMedium {
		return false
	}
	text = text[1 : len(text)-1]
	if bytes.HasPrefix(text, []byte("data:")) {
		return true
	}
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '+', c == '/', c == '=', c == '-', c == '_', c == '\\': // JSON may write / as \/
		default:
			return false
		}
	}
	return true
}

// sessionHeader returns the precedence of a header that names a session, 1 first; 0 for any other
// one. Names are as fasthttp normalizes them.
func sessionHeader(name []byte) int {
	switch string(name) {
	case "X-Session-Id":
		return 1
	case "X-Claude-Code-Session-Id": // Claude Code since 2.1.86
		return 2
	case "Session-Id", "Session_id": // Codex, and Codex before 2026
		return 3
	case "Conversation_id":
		return 4
	case "X-Opencode-Session":
		return 5
	}
	return 0
}

// maxSessionHeader is the longest name of a session in a header; longer ones name nothing.
const maxSessionHeader = 512

// headerSession returns the session that the headers name, in one pass over them.
func headerSession(h *fasthttp.RequestHeader) (name []byte) {
	first := 0
	for key, value := range h.All() {
		n := sessionHeader(key)
		if n > 0 && (first == 0 || n < first) && len(value) > 0 && len(value) <= maxSessionHeader {
			name, first = value, n
		}
	}
	return name
}

// nameSession fills in the session that the request names: SGLang's own session first, then
// headers, then the other fields of the body.
func nameSession(p *routing.Prompt, c call, req *openai.Request) {
	name, from := req.Session, sessionSources[req.SessionBy]
	if from != routing.SessionField {
		if header := headerSession(&c.ctx.Request.Header); len(header) > 0 {
			name, from = header, routing.SessionHeader
		}
	}
	p.NameSession(name, from)
}

// sessionSources are the sources by field of the body.
var sessionSources = [...]routing.SessionSource{
	openai.NoSession:             routing.NoSession,
	openai.SessionByID:           routing.SessionField,
	openai.SessionByMetadata:     routing.SessionMetadata,
	openai.SessionByConversation: routing.SessionConversation,
	openai.SessionByResponse:     routing.SessionResponse,
	openai.SessionByCacheKey:     routing.SessionCacheKey,
}

// proofs are the proofs of conversions: by the served name of a model, the API, and whether the
// prompt has more than messages. Names come from workers, so that clients cannot add any.
type proofs struct {
	log     *slog.Logger
	by      sync.Map // of *tokens.Proof by proofKey
	inlines sync.Map // of bool by model: see guess
}

type proofKey struct {
	model string
	api   openai.API
	plain bool
	guess guess
}

// guess is the place of system messages behind others in the chat of a model without a known
// template: SGLang joins them at the beginning or leaves them, as the template does. The number of
// prompt tokens tells which one is right.
type guess uint8

const (
	noGuess guess = iota // the prompt does not depend on it
	guessJoined
	guessInline
)

// guess returns the guess for a model.
func (p *proofs) guess(model string) guess {
	if inline, _ := p.inlines.Load(model); inline == true {
		return guessInline
	}
	return guessJoined
}

// wrong notes that a guess was wrong.
func (p *proofs) wrong(model string, g guess) {
	if g != noGuess {
		p.inlines.Store(model, g == guessJoined)
	}
}

// of returns the proof for a request.
func (p *proofs) of(model string, req *openai.Request, g guess) *tokens.Proof {
	key := proofKey{model, req.API, len(req.PromptFields()) == 0, g}
	found, ok := p.by.Load(key)
	if !ok {
		name := model + " " + req.API.String()
		if !key.plain {
			name += " with tools"
		}
		if g != noGuess {
			name += " with system messages"
		}
		found, _ = p.by.LoadOrStore(key, tokens.NewProof(name, p.log))
	}
	proof, _ := found.(*tokens.Proof)
	return proof
}

// ConversionStatus is the state of a proof.
type ConversionStatus struct {
	Name string `json:"name"` // of model, API and kind of prompt
	// Proved conversions give token ids; others are known by their text.
	Proved bool `json:"proved"`
	// Matches and Mismatches count answers with as many prompt tokens as were expected, and with
	// others.
	Matches    uint64 `json:"matches"`
	Mismatches uint64 `json:"mismatches"`
}

// status returns the proofs by name.
func (p *proofs) status() (all []ConversionStatus) {
	p.by.Range(func(_, found any) bool {
		if proof, ok := found.(*tokens.Proof); ok {
			s := ConversionStatus{Name: proof.Name(), Proved: proof.Proved()}
			s.Matches, s.Mismatches = proof.Counts()
			all = append(all, s)
		}
		return true
	})
	slices.SortFunc(all, func(a, b ConversionStatus) int { return strings.Compare(a.Name, b.Name) })
	return all
}
