package request

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// leg is one half of an attempt at a pair.
type leg uint8

const (
	legPrefill leg = iota
	legDecode
)

// String names the leg in metrics.
func (l leg) String() string {
	if l == legDecode {
		return "decode"
	}
	return "prefill"
}

// pairAttempt is one try at a pair: the request goes to both workers at once, in one bootstrap
// room. The exchange's own goroutine runs the decode leg, which answers the client, by
// exchange.attempt. prefillLeg has a goroutine of its own, which stop waits for before any memory
// of the request is given back.
type pairAttempt struct {
	x       *exchange
	prefill prefillLeg
	race    legRace
	writer  pairWriter
	merger  disagg.Merger
	merges  bool // the prefill worker's log probabilities go into the decode worker's answer
	running bool // the prefill leg was started, and not stopped
	fresh   bool // the legs take new connections
}

func newPairAttempt(x *exchange) *pairAttempt {
	p := &pairAttempt{x: x}
	p.race.init(&x.canceler)
	p.prefill.init(x, &p.race)
	return p
}

// send sends the request to the decision's two ranks, again on new connections where a kept-alive
// one was closed: the worker never had the request, and its partner may have begun it, so both get
// it anew, in another room. The error is nil for an answer that is the client's, and errClient
// where the prefill worker's refusal is. After any other error the rank at fault is excluded from
// the choice.
func (p *pairAttempt) send() (*upstream.Response, error) {
	p.fresh = false
	resp, err := p.sendOnce()
	if errors.Is(err, upstream.ErrStale) && !p.x.client.Gone() {
		p.fresh = true
		renewID(p.x)
		resp, err = p.sendOnce()
	}
	return resp, err
}

// sendOnce is send on the connections that are there.
func (p *pairAttempt) sendOnce() (*upstream.Response, error) {
	x, l, a := p.x, &p.prefill, &p.x.attempt
	d, prompt := &x.choice.decision, &x.choice.prompt
	p.reset()
	l.reply.events, l.reply.wanted, l.reply.api = x.req.Stream, x.req.PromptLogprobs, x.api
	l.reply.judged = x.repeatable()
	a.span, l.span = x.trace.Attempt(tracing.StepFirstByte, d.Decode.ID()), x.trace.Attempt(tracing.StepPrefill, d.Rank.ID())
	l.request, a.request = p.writer.write(x)
	exact := x.prompt.complete()
	a.lease = d.Decode.Load.BeginLeg(d.DecodeTokens(), d.Work(prompt.Output, exact))
	now := time.Now()
	a.sent, l.sent = now, now
	l.lease = d.Rank.Load.BeginWork(now, d.Work(1, exact)) // the decode worker generates
	x.h.admission.dispatchedPair(&x.choice, now)
	l.flight = x.h.Router.Dispatch(&x.choice.scratch, prompt, d)
	x.h.Router.Sent(&x.choice.scratch, d)
	a.wait(d.Decode.Worker)
	p.running = true
	l.start(d.Rank)
	resp, err := x.h.Transport.Do(&x.canceler, &a.request)
	if err == nil {
		if err = p.judgeDecode(resp); err == nil {
			err = a.keep()
		}
		if err == nil {
			p.answerBegan(resp)
			return resp, nil
		}
		_ = resp.Close()
	}
	return nil, p.failed(err)
}

// judgeDecode waits for the beginning of the decode worker's answer. The error is nil where the
// answer is the client's.
func (p *pairAttempt) judgeDecode(resp *upstream.Response) error {
	x := p.x
	var f finding
	var err error
	if resp.Status >= fasthttp.StatusInternalServerError {
		f, err = x.judge.examineError(resp)
	} else {
		f, err = x.judge.examine(x, resp)
	}
	if err != nil {
		return err
	}
	switch f.kind {
	case answerBusy:
		if kept, err := resp.Keep(maxErrorAnswer); err == nil {
			x.errors.hold(kept, f, x.choice.decision.Decode)
		}
		return errRefused
	case answerBroken:
		// A status of 200 and no error is no answer that another pair could confirm.
		if !f.transfer && (resp.Status >= fasthttp.StatusInternalServerError || bytes.HasPrefix(resp.Peek(fasthttp.HeaderContentType), eventStream)) {
			if kept, err := resp.Keep(maxErrorAnswer); err == nil {
				x.errors.keep(kept, f, x.choice.decision.Decode)
			}
		}
		return statusError(f.status, f.transfer)
	}
	refused := f.kind == answerRefused
	if x.attempt.found = f; x.req.PromptLogprobs && !refused && resp.Status == fasthttp.StatusOK {
		if err := p.awaitLogprobs(); err != nil {
			return err
		}
	}
	if !p.race.accept() {
		return upstream.ErrCanceled // by the prefill leg
	}
	if refused {
		p.stop(true) // the decode worker will not meet it
	}
	return nil
}

// awaitLogprobs waits for the prefill worker's whole answer: the log probabilities in it belong
// before anything that the client gets. The decode worker has begun, so the answer is about to
// come.
func (p *pairAttempt) awaitLogprobs() error {
	x, l := p.x, &p.prefill
	p.race.release()
	cfg := x.h.live()
	timeout := cfg.Pair.Timeout
	if timeout < 0 {
		timeout = cfg.FirstByteTimeout
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	over := false
	for n, read := 0, int64(0); !over; n++ {
		if n == looks {
			return errLate
		}
		timer.Reset(timeout / looks)
		select {
		case <-l.over:
			l.over <- struct{}{} // for stop
			over = true
		case <-timer.C:
		}
		if now := l.reply.length.Load(); now != read { // log probabilities of a long prompt
			n, read = -1, now
		}
	}
	if l.err != nil {
		return l.err
	}
	kind := disagg.Generate
	if x.api == openai.APICompletions {
		kind = disagg.Echo
	}
	// An answer without them is still one, as it is with SGLang's own load balancer.
	p.merges = p.merger.Reset(kind, l.reply.events, l.reply.body) == nil
	x.h.metrics.pairs.merged(p.merges)
	return nil
}

// answerBegan notes that the decode worker's answer is the client's.
func (p *pairAttempt) answerBegan(resp *upstream.Response) {
	p.x.attempt.answerBegan(resp.Status)
	if p.prefill.reply.events && resp.Status == fasthttp.StatusOK {
		prefilled := p.race.prefilledAt.Load()
		if prefilled == 0 { // just now: the prefill worker's word is on its way
			prefilled = p.x.answer.firstAt.UnixNano()
		}
		p.x.choice.decision.Decode.Load.BegunPair(prefilled)
		p.x.h.metrics.pairs.lag.Observe(p.race.lag(p.x.answer.firstAt).Seconds())
	}
}

// stop ends the prefill leg where it still runs; abort has a worker stop that may compute on.
func (p *pairAttempt) stop(abort bool) {
	if !p.running {
		return
	}
	p.running = false
	l := &p.prefill
	l.stop()
	if abort && (errors.Is(l.err, upstream.ErrCanceled) || givenUp(l.err)) {
		p.x.abortLeg(l.rank.Worker, legPrefill)
	}
}

// failed ends a failed attempt: it stops the other leg, finds the leg at fault, and gives back load
// and prediction. err is the decode leg's failure.
func (p *pairAttempt) failed(err error) error {
	x, d, l := p.x, &p.x.choice.decision, &p.prefill
	x.attempt.span.Failed(err)
	p.stop(true)
	at, rank := legDecode, d.Decode
	x.attempt.failedLeg = legDecode
	switch {
	case x.client.Gone(): // abandon aborts the decode leg
		p.end()
		return err
	case p.race.prefillFailed:
		at, rank, err = legPrefill, d.Rank, l.err
		x.attempt.failedLeg = legPrefill
	case p.race.decodeLate:
		err = fmt.Errorf("cannot get answer of %s: %w", d.Decode.ID(), errLate)
	case errors.Is(err, upstream.ErrCanceled): // by the monitor: neither by client nor prefill leg
		err = fmt.Errorf("cannot get answer of %s: %w", d.Decode.ID(), errHung)
	}
	if at == legPrefill || givenUp(err) {
		x.abortLeg(d.Decode.Worker, legDecode)
	}
	p.end()
	if x.canceler.Canceled() {
		x.canceler.Reset()
		if x.client.Gone() { // just now, and its cancel was reset with the monitor's
			return upstream.ErrCanceled
		}
	}
	switch {
	case errors.Is(err, errClient):
		x.attempt.found = finding{kind: answerRefused, status: l.reply.refusal}
		return err
	case errors.Is(err, upstream.ErrStale):
		return err // nobody's fault
	}
	if at == legPrefill && errors.Is(err, errRefused) {
		x.errors.hold(l.reply.kept, findingOf(l.reply.status, false), d.Rank)
	}
	if errors.Is(l.err, errFailed) {
		x.errors.keep(l.reply.kept, findingOf(l.reply.status, false), d.Rank)
	}
	x.h.metrics.pairs.failed(at, causeOf(err))
	p.blame(rank, err)
	switch {
	case errors.Is(err, errTransfer), errors.Is(err, errLate), errors.Is(err, upstream.ErrTimeout) && !p.prefilled():
		p.suspectBoth(rank, err)
	case at == legDecode && l.err != nil &&
		!errors.Is(l.err, upstream.ErrCanceled) && !errors.Is(l.err, errClient):
		p.blame(d.Rank, l.err) // each leg failed by itself
	}
	return err
}

// excused reports whether a rank that had nothing to say in time is busy, or has waited for the
// other one of the pair: its scheduler runs, and the other's does not.
func (p *pairAttempt) excused(rank *worker.Rank, err error) bool {
	d, now := &p.x.choice.decision, time.Now()
	other := d.Rank
	if rank == other {
		other = d.Decode
	}
	late := errors.Is(err, errLate) || errors.Is(err, upstream.ErrTimeout)
	return busy(rank, err, now) || late && rank.Load.Reporting(now) && !other.Load.Reporting(now)
}

// prefilled reports whether the prefill worker has answered. Until then each worker may wait for
// the other one.
func (p *pairAttempt) prefilled() bool { return p.race.prefilledAt.Load() != 0 }

// end gives back the load and the prediction of the attempt.
func (p *pairAttempt) end() {
	p.x.attempt.end()
	p.x.attempt.endWait()
}

// blame counts a failure against a rank and excludes it.
func (p *pairAttempt) blame(rank *worker.Rank, err error) {
	rank.Count.Errors.Add(1)
	if silenced(err) {
		rank.Worker.Suspect()
	}
	// A worker that starts, stops or is full is not faulty.
	if !errors.Is(err, errRefused) && !p.excused(rank, err) {
		p.x.errors.failed(rank, err)
	}
	p.x.choice.exclude(rank)
}

// suspectBoth counts a failure of the transfer between the legs against both ranks: the innocent
// one is cleared by its next answer together with another rank. Other ranks are tried first; see
// choice.retrySuspect.
func (p *pairAttempt) suspectBoth(reporter *worker.Rank, cause error) {
	c := &p.x.choice
	partner := c.decision.Rank
	if reporter == partner {
		partner = c.decision.Decode
	}
	if !p.excused(partner, cause) {
		p.x.errors.failed(partner, cause)
	}
	c.exclude(partner)
	c.suspect(reporter, partner)
}

// passRefusal makes the prefill worker's refusal the client's answer: the decode worker's would be
// the same.
func (p *pairAttempt) passRefusal() {
	x, r := p.x, &p.prefill.reply
	ctx, rank := x.call.ctx, x.choice.decision.Rank
	r.kept.Answer(ctx)
	m := marks{prefill: rank.ID()}
	m.write(&ctx.Response.Header, x.answer.shown())
	x.h.metrics.passed(rank, r.status)
	x.record.refused(x, nil)
	x.release()
}

// reset makes the attempt ready for the next one. Its goroutine has ended.
func (p *pairAttempt) reset() {
	p.race.reset()
	p.prefill.reset()
	p.writer.reset()
	p.merger.Release()
	p.merges = false
}
