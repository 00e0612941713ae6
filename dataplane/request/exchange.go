package request

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
)

// exchange is one request and its answer. It is pooled: everything in it is
// reused, and reset when the answer has ended.
type exchange struct {
	s        *Server
	req      openai.Request
	known    *promptcache.Cursor // of req's ids; nil: they are read from their beginning
	prompt   routing.Prompt
	scratch  routing.Scratch
	decision routing.Decision
	tried    []*worker.Rank
	doubted  []*worker.Rank // of those, the ones of which either may be at fault; see relent
	upstream upstream.Request
	usage    openai.UsageScanner
	output   openai.OutputScanner
	ids      []uint32 // of the answer
	canceler upstream.Canceler
	leg      *prefillLeg // of requests to pairs; nil until the first of them
	paired   bool        // leg has been started, and not stopped
	failed   int         // of a pair that failed, 1 for the decode leg; else 0
	client   *upstream.Client
	lease    worker.Lease
	flight   *routing.Flight
	place    queue.Place // in front of full workers
	trial    trial

	onHang   func(dead bool) bool // leaves e's worker, made once
	attempts int                  // that are left behind this one

	api      openai.API
	inferred bool // the body was read: an API whose answers are counted
	started  time.Time
	firstAt  time.Time
	whole    bool // the answer came in one piece: it ended when it began
	status   int
	events   bool           // the answer is a stream of events
	spoilt   bool           // the stream has told of an error behind its beginning
	sent     time.Time      // to the worker whose answer is the client's
	found    finding        // of the answer's beginning
	opinions opinions       // of the workers that were asked before
	begin    []byte         // the beginning of an answer whose first event did not come in one piece
	awaited  *worker.Worker // Await was called for it and Begun was not
	key      uint64

	rid   []byte // the request's id, ours or the client's
	field []byte // `"rid":"…"`, when it is ours
	rank  []byte
	lines []byte // of the client's header, or of the answer's
	parts [][]byte
	extra []upstream.Field
	text  []byte // a chat, for prompt.Text
	own   ownIDs
	names []radix.Hash // of the prompt's blocks, for the access log
}

func newExchange(s *Server) *exchange {
	e := &exchange{s: s}
	e.onHang = func(dead bool) bool {
		if !dead && !e.elsewhere(e.answering()) {
			return false
		}
		e.canceler.Cancel()
		return true
	}
	if s.Sessions != nil && s.usesOverlap() {
		e.known = s.Sessions.NewCursor()
		e.req.Memory = e.known
		e.own.init(s.Sessions.NewCursor())
	}
	return e
}

var _ upstream.Observer = (*exchange)(nil)

// serve answers one request; withBody says that its method has one.
func (e *exchange) serve(c call, api openai.API, withBody bool) {
	e.api, e.started = api, time.Now()
	e.s.inFlight.Add(1)
	if withBody {
		if err := e.req.Parse(api, c.body()); err != nil {
			e.refuse(c, unreadable(c, err))
			return
		}
		if err := e.check(); err != nil {
			e.refuse(c, err)
			return
		}
		e.inferred = api != openai.APIOther
		if l := e.s.Lint; l != nil && e.inferred {
			l.Offer(c.body())
		}
	}
	e.client = c.client()
	e.client.Guard(&e.canceler)
	e.describe(c)
	if e.wait(c) {
		e.forward(c)
	}
}

// describe fills in what routing needs to know.
func (e *exchange) describe(c call) {
	e.prompt = routing.Prompt{
		Model: e.req.Model, LoRA: e.lora(), Salt: e.req.CacheSalt, ExtraKey: e.req.ExtraKey,
		Opaque: e.req.Multimodal || e.req.Batch,
		// Four bytes a token is what English text and JSON come to; it only has to
		// order prompts by size.
		Estimate: len(c.body()) / 4, DP: -1, Output: e.req.MaxTokens * e.req.N * e.req.Prompts,
		Computed: e.req.Computed, ComputedFrom: e.req.ComputedFrom,
	}
	if e.req.HasRank {
		e.prompt.DP = e.req.Rank
	}
	if e.s.Router.Sessions != nil || e.s.AccessLog != nil {
		e.prompt.Session = sessionOf(c, &e.req)
	}
	if !e.inferred || e.req.Batch {
		return
	}
	if e.req.HasIDs {
		e.prompt.Tokens, e.prompt.Exact = e.req.InputIDs, true
		if e.known != nil {
			e.prompt.Hashes, e.prompt.Block = e.known.Chain()
		}
		return
	}
	needs := e.s.needs()
	if e.prompt.Opaque || needs == 0 {
		return
	}
	if !needs.Has(policy.NeedsTokens) || !e.tokenize() {
		e.prompt.Text = e.promptText()
		e.prompt.Estimate = len(e.prompt.Text) / 4
	}
}

// lora names the adapter: by its own field, or behind the colon of the model.
func (e *exchange) lora() string {
	if e.req.LoRA != "" {
		return e.req.LoRA
	}
	_, adapter := openai.SplitModel(e.req.Model, "")
	return adapter
}

// identify makes sure that the request has an id by which it can be aborted.
func (e *exchange) identify() {
	e.rid, e.field = e.rid[:0], e.field[:0]
	if e.req.HasRID || !e.inferred {
		e.rid = append(e.rid, e.req.RID...)
		return
	}
	hi, lo := rand.Uint64(), rand.Uint32()
	e.rid = openai.AppendRID(e.rid, hi, lo)
	e.field = openai.AppendRIDField(e.field, hi, lo)
}

// Body implements proxy.Observer.
func (e *exchange) Body(p []byte) {
	if e.inferred {
		_, _ = e.usage.Write(p)
	}
	if e.tellsIDs() {
		_, _ = e.output.Write(p)
	}
	if e.events && !e.spoilt && e.found.kind == answered {
		e.spoilt = e.spoils(p)
	}
}

// firstByte marks the prompt as prefilled, unless the answer is an error: nothing was computed for it.
func (e *exchange) firstByte() {
	e.firstAt = time.Now()
	if e.found.kind == answered {
		e.lease.FirstByteAt(e.firstAt)
		e.flight.Prefilled()
	}
	e.begun()
}

// elsewhere reports whether anybody fit but rank could take the request. Monitors ask, too, while the request waits for an answer: it
// reads only what does not change meanwhile.
func (e *exchange) elsewhere(rank *worker.Rank) bool {
	if e.attempts <= 0 {
		return false
	}
	var probe routing.Scratch // rare path: keep the decision's own scratch
	return e.s.Router.Left(&probe, &e.prompt, append(slices.Clone(e.tried), rank))
}

// begun ends the time in which the request may be sent elsewhere.
func (e *exchange) begun() {
	if e.awaited != nil {
		e.awaited.Begun(e.key)
		e.awaited = nil
	}
}

// Broken implements proxy.Observer: the worker's answer ended early.
func (e *exchange) Broken(error) []byte {
	if !e.events {
		return nil // cut: a part of a JSON document must not pass for the whole
	}
	out := openai.Upstream("The worker failed before the end of its answer.").AppendSSE(nil)
	return append(out, "data: [DONE]\n\n"...)
}

// Closed implements proxy.Observer: the answer has ended, one way or another.
func (e *exchange) Closed(err error) {
	e.stopLegs(err != nil)
	now := e.firstAt
	if !e.whole {
		now = time.Now()
	}
	usage, good := e.usage.Usage().Believable(), e.status == fasthttp.StatusOK && e.found.kind == answered && !e.spoilt
	e.outcome(err)
	if err == nil {
		e.cleared()
	}
	switch {
	case err != nil:
		e.abort()
		if !e.client.Gone() {
			e.s.metrics.broken(e.answering())
			e.lostBegun(err)
		}
	case e.inferred && good:
		e.ids = e.ids[:0]
		if e.tellsIDs() {
			e.ids = e.output.AppendIDs(e.ids)
		}
		e.s.Router.Ended(&e.scratch, e.flight, e.ids, now)
		e.flight = nil
	}
	if e.inferred && e.status == fasthttp.StatusNotFound {
		e.answering().Worker.Recheck() // it may not have the model any more; SGLang's answers only repeat the request's name
	}
	if e.inferred && good {
		e.learn(usage)
		e.proveLength(usage)
	}
	e.s.metrics.answered(e, usage, now, err)
	e.record(usage, now)
	e.release()
}

// outcome tells the worker's breaker how an answer has ended that began well; settle has told of others.
func (e *exchange) outcome(err error) {
	w := e.answering().Worker
	switch {
	case e.found.kind != answered:
	case err == nil && !e.spoilt:
		w.Succeeded(e.sent)
	case err == nil, !errors.Is(err, upstream.ErrClient) && !errors.Is(err, upstream.ErrCanceled) && !e.client.Gone():
		w.Fault(time.Now())
	default:
		w.Inconclusive()
	}
}

// learn tells the router what an answer, or as much as there is of one, says of
// the rank's cache.
func (e *exchange) learn(usage openai.Usage) {
	// Each of n answers finds the prompt of the one before, and a prompt whose log probabilities are wanted is computed again
	// whatever is cached of it.
	if !usage.HasPrompt || !usage.HasCached || e.req.N > 1 || e.req.PromptLogprobs {
		usage = openai.Usage{}
	}
	e.s.Router.Answered(&e.scratch, &e.prompt, &e.decision, usage.PromptTokens, usage.CachedTokens)
}

// stored returns how many prompt tokens the rank must have put into its cache anew by its answer, in whole pages. It is 0 wherever
// something else may have kept the engine from storing them: prompts whose log probabilities are wanted are computed anew though their
// pages are there, of sessions the pages are not in the cache, and an answer without a token may be that to a prompt that never ran.
func (e *exchange) stored(usage openai.Usage) int {
	d, info := &e.decision, e.decision.Rank.Worker.Info()
	page := info.PageSize
	if info.Events != nil && info.Events.BlockSize > 0 {
		page = info.Events.BlockSize
	}
	if !e.prompt.Exact || e.prompt.Opaque || e.req.PromptLogprobs || e.req.N > 1 || e.req.SessionID != "" || info.NoCache ||
		page == 0 || usage.CompletionTokens == 0 || usage.PromptTokens != e.prompt.Len() {
		return 0
	}
	known := max(usage.CachedTokens, d.Cached, d.Predicted) / page * page
	return max(e.prompt.Len()/page*page-known-page, 0) // the last page of a prompt is computed each time
}

// answering is the rank whose answer is the client's.
func (e *exchange) answering() *worker.Rank {
	if e.decision.Decode != nil {
		return e.decision.Decode
	}
	return e.decision.Rank
}

// tellsIDs reports whether the answer says which ids were generated, and a
// next turn could be made of them.
func (e *exchange) tellsIDs() bool {
	return e.api == openai.APIGenerate && e.req.HasIDs && !e.req.Batch
}

// endAttempt gives back what the attempt at a rank was counted with.
func (e *exchange) endAttempt() {
	e.lease.End()
	e.unseated()
	e.s.Router.Land(e.flight)
	e.flight = nil
	if e.decision.Rank != nil {
		e.s.Router.Failed(&e.scratch, &e.decision)
	}
}

// refuse answers with an error before any worker was asked or after all failed: with a worker's own, where one has answered.
func (e *exchange) refuse(c call, err error) {
	if e.answerHeld(c) {
		return
	}
	if errors.Is(err, routing.ErrNoWorker) && e.s.noSuchRank(&e.prompt) {
		err = openai.NoSuchRank(e.prompt.DP)
	}
	e.s.fail(c.answer(), errorFor(err, e.prompt.Model))
	e.recordRefusal(c)
	e.release()
}

// keptText bounds what a pooled exchange keeps of a chat's text.
const keptText = 1 << 20

// release gives everything back; e must not be touched afterwards.
func (e *exchange) release() {
	e.stopLegs(true)
	e.endAttempt()
	e.place.Give()
	e.begun()
	e.client.Release() // from here on nobody cancels
	e.s.inFlight.Add(-1)
	s := e.s
	e.trial.turn.End()
	e.leave(false)
	e.trial = trial{}
	e.req.Reset()
	e.scratch.Trim()
	if cap(e.text) > keptText {
		e.text = nil
	}
	e.own.reset()
	e.canceler.Reset()
	if e.leg != nil {
		e.leg.reset()
	}
	clear(e.tried)
	clear(e.parts)
	clear(e.extra)
	e.upstream = upstream.Request{}
	e.prompt, e.decision = routing.Prompt{}, routing.Decision{}
	e.tried, e.parts, e.extra, e.doubted = e.tried[:0], e.parts[:0], e.extra[:0], nil
	e.client, e.inferred, e.status, e.lease, e.failed = nil, false, 0, worker.Lease{}, 0
	e.events, e.spoilt, e.found, e.sent = false, false, finding{}, time.Time{}
	e.opinions.reset()
	e.started, e.firstAt, e.whole = time.Time{}, time.Time{}, false
	s.exchanges.Put(e)
}
