package request

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// maxLost is how many workers may fail with a request in their hands before the
// request itself is suspected. Some requests kill an engine (SGLang 0.5.23
// dies of a token id outside its vocabulary): such a one must not be carried
// from worker to worker until none is left.
const maxLost = 1

// errRefused is a worker that answered 503 without having begun.
var errRefused = errors.New("server: worker refused")

// errHung is a worker that stopped answering its probes while a request
// waited for it.
var errHung = errors.New("server: worker hangs")

// forward sends the request to the best worker, and to the next best one for
// as long as no answer has begun.
func (e *exchange) forward(c call) {
	var last error
	again := false  // all pairs have failed, and are tried once more
	var lost [2]int // workers that failed after they may have seen the request; decode workers apart
	for attempt := 0; attempt <= max(e.s.live().Retries, 0); attempt++ {
		e.identify() // anew: the abort of an earlier attempt is repeated after abortAgain and must not hit this one
		d, err := e.chooseApart(c)
		if err != nil {
			if errors.Is(err, upstream.ErrCanceled) && e.giveUp(c, err) {
				return // the client left while it waited
			}
			if last != nil && errors.Is(err, routing.ErrNoWorker) {
				if !again && e.pausePair(last) {
					again = true
					continue
				}
				err = last // what went wrong says more than that nobody is left
			}
			e.refuse(c, err)
			return
		}
		e.decision, e.failed, e.found, e.attempts = d, 0, finding{}, e.s.live().Retries-attempt
		resp, err := e.attempt(c)
		if err == nil || errors.Is(err, errClient) {
			if last = e.conclude(c, resp, err); last == nil {
				return
			}
			continue
		}
		others, refusal := e.lost(err)
		switch {
		case refusal != nil:
			e.refuse(c, refusal)
			return
		case e.giveUp(c, err):
			return
		case others:
			attempt-- // it was another request's death
		case mayHaveDied(err):
			lost[e.failed]++
		}
		if max(lost[0], lost[1]) > maxLost {
			e.refuse(c, err)
			return
		}
		last = err
		if e.decision.Decode == nil { // else attemptPair knows better who it was
			e.tried = append(e.tried, d.Rank)
			if errors.Is(err, errHung) { // who else was there may be gone by now
				e.doubted = append(e.doubted[:0], d.Rank)
			}
		}
	}
	e.refuse(c, last)
}

// pairPause lets a healthy worker be told from a dead one: the death of one half of a pair fails
// requests on the other half, too.
const pairPause = 250 * time.Millisecond

// pausePair makes all workers eligible again after a short pause, where a pair's failure may be that
// of a worker which is known to be dead by then.
func (e *exchange) pausePair(last error) bool {
	if !errors.Is(last, errFailed) && !errors.Is(last, errTransfer) || e.client.Gone() {
		return false
	}
	<-time.After(pairPause)
	clear(e.tried)
	e.tried, e.doubted = e.tried[:0], nil
	return !e.client.Gone()
}

// conclude passes an answer on, or the refusal of a pair, and returns nil; an error is why another
// worker is asked instead.
func (e *exchange) conclude(c call, resp *upstream.Response, err error) error {
	switch {
	case err == nil && !e.tryAnother(c, resp):
		e.settle(e.answering())
		e.trial.turn.Begun()
		e.leave(true)
		e.answer(c, resp)
		return nil
	case err != nil && !e.tryAnotherPair(c):
		e.settle(e.decision.Rank)
		e.passRefusal(c)
		return nil
	}
	e.endTrial()
	asked := e.decision.Rank
	if err == nil {
		asked = e.answering()
		err = fmt.Errorf("cannot get answer of %s: %w", asked.ID(), errRefused)
	}
	e.tried = append(e.tried, asked)
	return err
}

// mayHaveDied reports whether a worker may have died with the request in its hands.
func mayHaveDied(err error) bool {
	return !errors.Is(err, upstream.ErrDial) && !errors.Is(err, errRefused) && !errors.Is(err, errFailed) && !errors.Is(err, errTransfer) &&
		!errors.Is(err, upstream.ErrBadResponse)
}

// attempt sends the request to the decision's rank, or to both of a pair.
func (e *exchange) attempt(c call) (*upstream.Response, error) {
	if e.decision.Decode != nil {
		return e.attemptPair(c)
	}
	rank := e.decision.Rank
	e.compose(c)
	now := time.Now()
	e.upstream.Now, e.sent = now, now
	e.lease = rank.Load.BeginWork(now, e.decision.Work(e.prompt.Output, e.prompt.Exact && !e.prompt.Opaque))
	e.seated(rank, now)
	e.flight = e.s.Router.Dispatch(&e.scratch, &e.prompt, &e.decision)
	e.s.Router.Sent(&e.scratch, &e.decision)
	e.awaited = rank.Worker
	e.key = rank.Worker.Await(e.onHang)
	resp, err := e.s.Transport.Do(&e.canceler, &e.upstream)
	if err == nil {
		if e.found, err = e.examine(c, resp); err == nil {
			err = e.kept()
		}
		if err == nil {
			if resp.Status == fasthttp.StatusOK && e.found.kind == answered && e.showsPrefill(resp) {
				e.lease.FirstToken(time.Now())
			}
			e.firstByte()
			return resp, nil
		}
		_ = resp.Close()
	}
	e.endAttempt()
	e.begun()
	rank.Count.Errors.Add(1)
	if e.canceler.Canceled() && !e.client.Gone() {
		e.canceler.Reset()                                            // also where the connection ended first: the next attempt is none that hangs
		if errors.Is(err, upstream.ErrCanceled) && !e.client.Gone() { // else the client left just now, and its cancel was reset with it
			return nil, fmt.Errorf("cannot get answer of %s: %w: %w", rank.ID(), errHung, err)
		}
	}
	if silenced(err) {
		rank.Worker.Suspect()
	}
	if retryable(err) {
		rank.Worker.Fault(time.Now())
	}
	return nil, err
}

// showsPrefill reports whether the first byte of an answer comes when the prompt is computed as it was expected to be: other answers come
// at their end, and a prompt whose log probabilities are wanted is computed as a whole.
func (e *exchange) showsPrefill(resp *upstream.Response) bool {
	return e.inferred && !e.req.PromptLogprobs && !e.req.Batch && bytes.HasPrefix(resp.Peek("Content-Type"), eventStream)
}

// kept ends the time in which a monitor may take the request away from its worker, and fails if one just did: then no more will come of an
// answer of which the beginning is here.
func (e *exchange) kept() error {
	e.begun()
	if e.canceler.Canceled() {
		return upstream.ErrCanceled
	}
	return nil
}

// headerPrefill names the prefill worker of an answer's pair; X-Warmpath-Worker is the decode worker then.
const headerPrefill = "X-Warmpath-Prefill"

// retryable reports whether another worker may be asked: the client has seen
// nothing, and the failure points at the worker.
func retryable(err error) bool {
	return silenced(err) || errors.Is(err, upstream.ErrBadResponse) || errors.Is(err, errRefused) || errors.Is(err, errFailed) || errors.Is(err, errTransfer) || errors.Is(err, errLate)
}

// silenced reports whether a worker may be gone: it was not reached, or stopped in the middle of what it had to say.
func silenced(err error) bool {
	return upstream.Retryable(err) || errors.Is(err, upstream.ErrTruncated) || errors.Is(err, errHung)
}

// giveUp ends the request after a failure that no other worker can mend.
func (e *exchange) giveUp(c call, err error) bool {
	if e.client.Gone() {
		e.abort()
		e.clientLeft()
		e.s.metrics.clientGone.Inc()
		if e.decision.Rank != nil {
			e.answering().Worker.Inconclusive()
		}
		answer := c.answer()
		answer.SetConnectionClose()
		answer.SetStatusCode(499) // nobody reads it; the metrics do
		e.release()
		return true
	}
	if !retryable(err) {
		if errors.Is(err, upstream.ErrTimeout) {
			e.abort()
		}
		e.refuse(c, err)
		return true
	}
	if errors.Is(err, errHung) && e.decision.Decode == nil {
		e.abort() // it may wake up and compute for nobody
	}
	e.s.metrics.retries.Inc()
	return false
}

// compose makes the upstream request: the client's bytes, with the id and the
// rank spliced in.
func (e *exchange) compose(c call) {
	w := e.decision.Rank.Worker
	e.parts, e.extra = e.parts[:0], e.extra[:0]
	body := c.body()
	if e.inferred {
		e.compositeBody(body)
	} else if len(body) > 0 {
		e.parts = append(e.parts, body)
	}
	e.lines = c.appendLines(e.lines[:0], e.extra)
	e.upstream = upstream.Request{
		Target: upstream.Target{Addr: w.Addr, TLS: w.TLS},
		Method: c.method(), Path: c.target(), Lines: e.lines, Extra: e.extra, Body: e.parts, Plain: c.plain != nil,
		HeaderTimeout: e.s.live().FirstByteTimeout, ReadTimeout: e.s.live().StallTimeout,
		Fresh: e.trial.turn != nil, // what ends it then is no death from before
	}
}

// originForm is a request's target as a server wants it: what a client sends that takes this router for its proxy has a scheme and a host in
// front, which not every worker understands.
func originForm(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return target
	}
	_, rest, ok := bytes.Cut(target, []byte("://"))
	if i := bytes.IndexByte(rest, '/'); ok && i >= 0 {
		return rest[i:]
	}
	return target
}

// compositeBody splices the fields that the worker must see into the body.
func (e *exchange) compositeBody(body []byte) {
	rank := e.decision.Rank
	e.rank = e.rank[:0]
	if len(rank.Worker.Ranks()) > 1 && !e.req.HasRank {
		if e.api == openai.APIGenerate {
			e.rank = append(e.rank, `"routed_dp_rank":`...)
			e.rank = strconv.AppendInt(e.rank, int64(rank.DPRank), 10)
		} else {
			e.rank = strconv.AppendInt(e.rank, int64(rank.DPRank), 10)
			e.extra = append(e.extra, upstream.Field{Key: "X-Data-Parallel-Rank", Value: e.rank})
		}
	}
	fields := e.field
	if e.api == openai.APIGenerate && len(e.rank) > 0 {
		if len(fields) > 0 {
			fields = append(fields, ',')
		}
		fields = append(fields, e.rank...)
	}
	if e.own.forward {
		// The ids may be as long as the body: they go behind the other fields in a buffer of their own.
		e.own.field = append(e.own.field[:0], fields...)
		if len(fields) > 0 {
			e.own.field = append(e.own.field, ',')
		}
		e.own.field = tokens.AppendField(e.own.field, e.own.ids)
		fields = e.own.field
	}
	if len(fields) == 0 {
		e.parts = append(e.parts, body)
		return
	}
	e.parts = openai.SpliceField(e.parts, body, fields)
}

var eventStream = []byte("text/event-stream")

// answer forwards the worker's answer to the client.
func (e *exchange) answer(c call, resp *upstream.Response) {
	d := &e.decision
	e.status = resp.Status
	// What somebody has compressed is not read, and nothing can be added to it.
	e.events = bytes.HasPrefix(resp.Peek("Content-Type"), eventStream) && len(resp.Peek("Content-Encoding")) == 0
	if e.events {
		resp.WholeEvents()
	}
	if e.inferred {
		e.usage.Reset(e.api, e.req.Stream)
		e.output.Reset(e.req.Stream)
	}
	d.Rank.Count.Requests.Add(1)
	prefill := ""
	if d.Decode != nil {
		d.Decode.Count.Requests.Add(1)
		prefill = d.Rank.ID()
	}
	// Forward ends the exchange when the answer has no body: what is needed
	// after it is taken out before, and not into the exchange's own memory.
	id, inferred, source := e.answering().ID(), e.inferred, d.Source.String()
	var room [32]byte
	overlap := strconv.AppendInt(room[:0], int64(d.Matched), 10)
	overlap = append(overlap, '/')
	overlap = strconv.AppendInt(overlap, int64(d.Total), 10)
	if c.plain != nil && e.pass(c, resp, overlap) {
		return
	}
	ctx := c.answer()
	switch {
	case d.Decode != nil && e.leg.merges:
		upstream.ForwardRewrite(ctx, resp, e, &e.leg.merger)
	case e.compresses(c, resp):
		upstream.ForwardGzip(ctx, resp, e, &e.s.compressors)
	default:
		upstream.Forward(ctx, resp, e)
	}
	ctx.Response.Header.Set("X-Warmpath-Worker", id)
	if prefill != "" {
		ctx.Response.Header.Set(headerPrefill, prefill)
	}
	if inferred {
		ctx.Response.Header.SetBytesV("X-Warmpath-Overlap", overlap)
		ctx.Response.Header.Set("X-Warmpath-Overlap-Source", source)
	}
}

// pass forwards the answer to a plain request, if it can be in one piece.
func (e *exchange) pass(c call, resp *upstream.Response, overlap []byte) bool {
	if e.decision.Decode != nil || e.compresses(c, resp) {
		return false
	}
	l := e.lines[:0]
	l = append(l, "X-Warmpath-Worker: "...)
	l = append(l, e.decision.Rank.ID()...)
	l = append(l, "\r\n"...)
	if e.inferred {
		l = append(l, "X-Warmpath-Overlap: "...)
		l = append(l, overlap...)
		l = append(l, "\r\nX-Warmpath-Overlap-Source: "...)
		l = append(l, e.decision.Source.String()...)
		l = append(l, "\r\n"...)
	}
	e.lines, e.whole = l, true
	if c.plain.Pass(resp, e, l, e.firstAt) {
		return true // e is another request's by now
	}
	e.whole = false
	return false
}
