package request

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// attempt is one try at the worker that would answer the client: an aggregated worker, or the
// decode worker of a pair.
type attempt struct {
	x       *exchange
	request upstream.Request
	sent    time.Time
	lease   worker.Lease        // load that is counted at the rank
	flight  *routing.Prediction // prediction of the prompt's blocks; nil for a decode leg
	found   finding             // of the answer's beginning
	span    *tracing.Attempt    // nil: it has none

	awaited   *worker.Worker // its monitor may end the attempt; nil once the answer has begun
	key       uint64         // of the wait
	onHang    func(dead bool) bool
	failedLeg leg // of a failed attempt at a pair; legPrefill of other attempts
}

func (a *attempt) init(x *exchange) {
	a.x = x
	a.onHang = func(dead bool) bool {
		if !dead && (x.prompt.turn.once || !x.choice.elsewhere(x.choice.answering())) {
			return false
		}
		x.canceler.Cancel()
		return true
	}
}

// send sends the request to the decision's rank and waits for its answer to begin.
func (a *attempt) send() (*upstream.Response, error) {
	x, d := a.x, &a.x.choice.decision
	rank, now := d.Rank, time.Now()
	a.span = x.trace.Attempt(tracing.StepFirstByte, rank.ID())
	a.request = x.body.request(rank)
	a.request.Now, a.sent = now, now
	prompt := &x.choice.prompt
	work := d.Work(prompt.Output, x.prompt.complete())
	work.Streams = x.req.Stream && a.showsPrefill()
	a.lease = rank.Load.BeginWork(now, work)
	x.h.admission.dispatched(&x.choice, rank, now)
	a.flight = x.h.Router.Dispatch(&x.choice.scratch, prompt, d)
	x.h.Router.Sent(&x.choice.scratch, d)
	a.wait(rank.Worker)
	resp, err := a.do(rank)
	if err == nil {
		if a.found, err = x.judge.examine(x, resp); err == nil {
			err = a.keep()
		}
		if err == nil {
			if resp.Status == fasthttp.StatusOK && a.found.kind == answerGood && a.showsPrefill() &&
				bytes.HasPrefix(resp.Peek("Content-Type"), eventStream) {
				a.lease.FirstToken(time.Now())
			}
			a.answerBegan(resp.Status)
			return resp, nil
		}
		_ = resp.Close()
	}
	return nil, a.failed(rank, err)
}

// do sends the request, again on a new connection where a kept-alive one was closed. The worker may
// have got it from that one all the same: until it notices the loss it refuses the id, and then it
// aborts all requests with it, so this one gets another.
func (a *attempt) do(rank *worker.Rank) (*upstream.Response, error) {
	x := a.x
	resp, err := x.h.Transport.Do(&x.canceler, &a.request)
	if !errors.Is(err, upstream.ErrStale) || x.client.Gone() {
		return resp, err
	}
	renewID(x)
	a.request = x.body.request(rank)
	a.request.Now, a.request.Fresh = time.Now(), true
	resp, again := x.h.Transport.Do(&x.canceler, &a.request)
	if errors.Is(again, upstream.ErrDial) {
		return nil, err // the worker may have died of the request
	}
	return resp, again
}

// failed ends a failed attempt and reports the failure to the worker's monitor and breaker.
func (a *attempt) failed(rank *worker.Rank, err error) error {
	x := a.x
	a.span.Failed(err)
	a.end()
	a.endWait()
	rank.Count.Errors.Add(1)
	if x.canceler.Canceled() && !x.client.Gone() {
		x.canceler.Reset() // also where the connection ended first: the next attempt does not hang
		// A client that left just now had its cancel reset with the monitor's.
		if errors.Is(err, upstream.ErrCanceled) && !x.client.Gone() {
			return fmt.Errorf("cannot get answer of %s: %w: %w", rank.ID(), errHung, err)
		}
	}
	if silenced(err) {
		rank.Worker.Suspect()
	}
	switch now := time.Now(); {
	case retryable(err):
		x.errors.failed(rank, err)
	case errors.Is(err, upstream.ErrTimeout) && !busy(rank, err, now) && !x.client.Gone():
		x.unexplained(rank.Worker, now) // its scheduler says nothing either
	}
	return err
}

// wait begins the time in which w's monitor may end the attempt because w hangs.
func (a *attempt) wait(w *worker.Worker) {
	a.awaited = w
	a.key = w.Await(a.onHang)
}

// endWait ends that time.
func (a *attempt) endWait() {
	if a.awaited != nil {
		a.awaited.Begun(a.key)
		a.awaited = nil
	}
}

// keep ends that time when an answer has begun, and fails if the monitor just ended the attempt:
// the rest of such an answer does not come.
func (a *attempt) keep() error {
	a.endWait()
	if a.x.canceler.Canceled() {
		return upstream.ErrCanceled
	}
	return nil
}

// answerBegan marks the prompt as prefilled, unless the answer is an error: then nothing was
// computed.
func (a *attempt) answerBegan(status int) {
	now := time.Now()
	a.span.Answered(status)
	a.x.answer.firstAt = now
	if a.found.kind == answerGood {
		a.lease.FirstByteAt(now)
		a.flight.Prefilled()
		a.x.h.admission.freed()
	}
	a.endWait()
}

// showsPrefill reports whether the first byte of a stream comes when the prompt is prefilled as it
// was predicted. Answers in one piece come at their end, as do those of /v1/responses with tools,
// and a prompt with log probabilities is computed as a whole.
func (a *attempt) showsPrefill() bool {
	x := a.x
	return x.inference && !x.req.PromptLogprobs && !x.req.Batch && !x.prompt.turn.head.Tools
}

// end gives back the load and the prediction of the attempt.
func (a *attempt) end() {
	h, c := a.x.h, &a.x.choice
	a.lease.End()
	h.admission.freed()
	h.Router.Withdraw(a.flight)
	a.flight = nil
	if c.decision.Rank != nil {
		h.Router.Failed(&c.scratch, &c.decision)
	}
}

func (a *attempt) reset() {
	a.request, a.lease, a.found = upstream.Request{}, worker.Lease{}, finding{}
	a.sent, a.failedLeg, a.span = time.Time{}, legPrefill, nil
}
