package request

import (
	"errors"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// renewID makes the id of an attempt. Each has its own: the abort of an earlier one is repeated a
// second later and must not end this one. A client's id stays where it is whole and new, and no
// abort of an earlier request that had it is under way.
func renewID(x *exchange) {
	x.h.sentIDs.remove(x)
	// A response of a client with a key is known as its own by the id alone.
	if x.req.WholeRID && (x.api != openai.APIResponses || x.credential.key == nil) {
		x.id.keep(&x.req)
		if x.h.sentIDs.add(x) {
			if !x.h.aborts.underWay.ends(&x.id, &x.req) {
				return
			}
			x.h.sentIDs.remove(x)
		}
	}
	switch {
	case x.prompt.opens:
		x.id.renewSession(x.choice.answering().Worker, x.credential.name())
		return // there is nothing to abort
	case x.api == openai.APIResponses:
		x.id.renewResponse(x.choice.answering().Worker, x.credential.name())
	case x.inference || x.req.RID != "" || len(x.req.RIDs) > 0:
		x.id.renew(x.api, &x.req)
	default:
		x.id.reset()
		return
	}
	x.h.sentIDs.add(x)
}

// tries are the attempts of a request that have failed so far.
type tries struct {
	last   error
	deaths [2]int // of engines with the request in flight; of decode workers apart
	paused bool   // all pairs have failed, and are tried once more
}

// dispatch tries ranks, the best first, until an answer begins.
func (x *exchange) dispatch() {
	if err := x.h.culprits.check(&x.req); err != nil {
		x.refuse(err)
		return
	}
	var failed tries
	for try := 0; try <= max(x.h.live().Retries, 0); try++ {
		from := x.trace.Now()
		d, err := x.choice.choose()
		x.trace.Step(tracing.StepChoose, from, err)
		if err != nil {
			if x.chooseAgain(&failed, err) {
				continue
			}
			return
		}
		x.h.sentIDs.remove(x)
		x.choice.decision, x.choice.retries = d, x.h.live().Retries-try
		renewID(x)
		x.single.found, x.single.failedLeg, x.answer.read = finding{}, legPrefill, false
		x.answer.usage.Reset(x.api, x.req.Stream)
		x.attempt = x.newAttempt()
		resp, err := x.attempt.send()
		if err == nil || errors.Is(err, errClient) {
			if failed.last = x.conclude(resp, err); failed.last == nil {
				return
			}
			continue
		}
		if x.attemptFailed(&failed, err) {
			return
		}
	}
	x.refuse(failed.last)
}

// attempt is one try to have the request answered, by a rank or by a pair.
type attempt interface {
	// send sends the request and waits for an answer to begin. After an error the ranks at fault
	// are excluded from the choice, and their workers stop. errClient leaves both to the caller.
	send() (*upstream.Response, error)
	// stop ends all that runs beside the answer; abort has its worker stop, too.
	stop(abort bool)
	// abort has the worker stop that would answer. Closing a connection does not reliably end the
	// request at SGLang.
	abort()
}

// newAttempt returns the attempt for a decision.
func (x *exchange) newAttempt() attempt {
	if x.choice.decision.Decode == nil {
		return &x.single
	}
	if x.pair == nil {
		x.pair = newPairAttempt(x)
	}
	return x.pair
}

// chooseAgain reports whether a request for which no rank was found may choose again; else it ends
// the exchange.
func (x *exchange) chooseAgain(failed *tries, err error) bool {
	if errors.Is(err, upstream.ErrCanceled) && x.giveUp(err) {
		return false // the client left while the request waited
	}
	if failed.last != nil && errors.Is(err, routing.ErrNoWorker) {
		if !failed.paused && x.pausePair(failed.last) {
			failed.paused = true
			return true
		}
		err = failed.last // it says more than that no rank is left
	}
	x.refuse(err)
	return false
}

// attemptFailed takes in the failure of an attempt, and reports whether the exchange has ended.
func (x *exchange) attemptFailed(failed *tries, err error) (ended bool) {
	if refusal := x.countDeaths(&failed.deaths, err); refusal != nil {
		x.refuse(refusal)
		return true
	}
	if x.giveUp(err) {
		return true
	}
	failed.last = err
	return false
}

// conclude answers the client, and returns nil; an error is why another worker is asked instead.
// refusal is errClient where the prefill worker has refused the request.
func (x *exchange) conclude(resp *upstream.Response, refusal error) error {
	switch {
	case refusal == nil && !x.retriesAnswer(resp):
		if !x.replaces(resp) {
			x.respond(resp)
		}
		return nil
	case refusal != nil && !x.retriesPrefill():
		rank, r := x.choice.decision.Rank, &x.pair.prefill.reply
		x.errors.settle(rank, x.single.found)
		// The decode worker's would be the same.
		x.pass(r.kept, r.refusal, rank, marks{prefill: rank.ID()})
		return nil
	}
	asked, err := x.choice.decision.Rank, refusal
	if err == nil {
		asked = x.choice.answering()
		err = fmt.Errorf("cannot get answer of %s: %w", asked.ID(), errRefused)
		if x.single.found.mute {
			err = errNothing
		}
	}
	x.choice.exclude(asked)
	return err
}

// replaces reports whether the client gets an error instead of an answer that hides one behind a
// good status, and sends it.
func (x *exchange) replaces(resp *upstream.Response) bool {
	f, rank := x.single.found, x.choice.answering()
	events := isEventStream(resp.Peek(fasthttp.HeaderContentType))
	if !f.mute && (!f.hidden || events && x.req.Stream) {
		return false
	}
	kept, err := resp.Keep(maxErrorAnswer)
	if !f.mute && kept == nil && err == nil { // too long to be kept
		return false
	}
	_ = resp.Close()
	if x.client.Gone() {
		x.abandon()
		return true
	}
	if f.mute || kept == nil {
		x.errors.list = append(x.errors.list, errorAnswer{rank: rank, finding: f})
		x.refuse(errNothing)
		return true
	}
	x.errors.settle(rank, f)
	x.pass(kept, f.status, rank, marks{worker: x.nameOf(rank)})
	return true
}

// retriesAnswer reports whether another worker is asked although this one has answered, and then
// ends the attempt. 429 and 503 are retried while another eligible rank is left; an error is
// retried while the worker is the only one that gives it (see worker.Refusals).
func (x *exchange) retriesAnswer(resp *upstream.Response) bool {
	f, rank := x.single.found, x.choice.answering()
	if f.cause == causeNone || !x.retriesError(f, rank) {
		return false
	}
	kept, err := resp.Keep(maxErrorAnswer)
	if kept == nil && err == nil { // too long to be kept: it is the client's
		return false
	}
	_ = resp.Close()
	x.errors.hold(kept, f, rank)
	x.single.end()
	return true
}

// retriesPrefill is retriesAnswer for the refusal of a pair's prefill worker.
func (x *exchange) retriesPrefill() bool {
	f, rank := x.single.found, x.choice.decision.Rank
	if !x.retriesError(f, rank) {
		return false
	}
	x.errors.hold(x.pair.prefill.reply.kept, f, rank)
	return true
}

// retriesError reports whether another worker is asked after rank has answered with an error.
func (x *exchange) retriesError(f finding, rank *worker.Rank) bool {
	gratis := f.cause.leadsTo(free)
	switch {
	case !gratis && (!x.repeatable() || !x.errors.doubtful(f, rank)):
		return false
	case !x.choice.elsewhere(rank):
		return false
	case gratis:
		return true
	}
	return x.h.sources.mayRetry(x, rank.Worker.Credible(f.status), time.Now())
}

// pairPause tells a healthy worker from a dead one: the death of one half of a pair also fails
// requests at the other half.
const pairPause = 250 * time.Millisecond

// pausePair makes all ranks eligible again after a short pause, where the failure of a pair may be
// that of a worker which is known to be dead by then.
func (x *exchange) pausePair(last error) bool {
	if !causeOf(last).leadsTo(pause) || x.client.Gone() {
		return false
	}
	<-time.After(pairPause)
	x.choice.includeAll()
	return !x.client.Gone()
}

// giveUp ends the exchange after a failure that no other worker can mend, and reports whether it
// was one.
func (x *exchange) giveUp(err error) bool {
	if x.client.Gone() {
		x.abandon()
		return true
	}
	c := causeOf(err)
	// A request that may be sent once goes on where no worker has begun it.
	unsent := !x.prompt.turn.once || c.leadsTo(untaken) || errors.Is(err, upstream.ErrUnsent)
	if !c.leadsTo(again) || !unsent {
		x.refuse(err)
		return true
	}
	x.h.metrics.retries.Inc()
	return false
}

// singleAttempt is one try at the worker that would answer the client: a regular worker, or, as
// a part of pairAttempt, the decode worker of a pair.
type singleAttempt struct {
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

func (a *singleAttempt) init(x *exchange) {
	a.x = x
	a.onHang = func(dead bool) bool {
		leaves := x.leaves(x.choice.answering(), dead)
		if leaves {
			x.canceler.Cancel()
		}
		return leaves
	}
}

// leaves reports whether an attempt at a rank ends because its worker hangs, or is dead.
func (x *exchange) leaves(rank *worker.Rank, dead bool) bool {
	return dead || !x.prompt.turn.once && x.choice.elsewhere(rank)
}

// send sends the request to the decision's rank and waits for its answer to begin.
func (a *singleAttempt) send() (*upstream.Response, error) {
	x, d := a.x, &a.x.choice.decision
	rank, now := d.Rank, time.Now()
	a.span = x.trace.Attempt(tracing.StepFirstByte, rank.ID())
	a.request = x.body.single(rank)
	a.request.Now, a.sent = now, now
	prompt := &x.choice.prompt
	work := d.Work(prompt.Output, x.prompt.complete())
	work.Streams = x.req.Stream && a.showsPrefill()
	a.lease = rank.Load.BeginWork(now, work)
	x.h.admission.dispatched(&x.choice, now)
	a.flight = x.h.Router.Dispatch(&x.choice.scratch, prompt, d)
	x.h.Router.Sent(&x.choice.scratch, d)
	a.wait(rank.Worker)
	resp, err := a.do(rank)
	if err == nil {
		if a.found, err = x.answer.examine(resp); err == nil {
			err = a.keep()
		}
		if err == nil {
			if resp.Status == fasthttp.StatusOK && a.found.cause == causeNone && a.showsPrefill() &&
				isEventStream(resp.Peek("Content-Type")) {
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
func (a *singleAttempt) do(rank *worker.Rank) (*upstream.Response, error) {
	x := a.x
	resp, err := x.h.Transport.Do(&x.canceler, &a.request)
	if !errors.Is(err, upstream.ErrStale) || x.client.Gone() {
		return resp, err
	}
	renewID(x)
	a.request = x.body.single(rank)
	a.request.Now, a.request.Fresh = time.Now(), true
	resp, again := x.h.Transport.Do(&x.canceler, &a.request)
	if errors.Is(again, upstream.ErrDial) {
		return nil, err // the worker may have died of the request
	}
	return resp, again
}

// failed ends a failed attempt and reports the failure to the worker's monitor and breaker.
func (a *singleAttempt) failed(rank *worker.Rank, err error) error {
	x := a.x
	a.span.Failed(err)
	a.end()
	if x.canceler.Canceled() && !x.client.Gone() {
		x.canceler.Reset() // also where the connection ended first: the next attempt does not hang
		// A client that left just now had its cancel reset with the monitor's.
		if errors.Is(err, upstream.ErrCanceled) && !x.client.Gone() {
			err = fmt.Errorf("cannot get answer of %s: %w: %w", rank.ID(), errHung, err)
		}
	}
	c := causeOf(err)
	x.blame(rank, c, c == causeHung)
	if c.leadsTo(stop) && !x.client.Gone() {
		a.abort()
	}
	if c.leadsTo(lastResort) { // a dead worker must not keep the request from one that only hung
		x.choice.suspect(rank)
	}
	return err
}

// wait begins the time in which w's monitor may end the attempt because w hangs.
func (a *singleAttempt) wait(w *worker.Worker) {
	a.awaited = w
	a.key = w.Await(a.onHang)
}

// endWait ends that time.
func (a *singleAttempt) endWait() {
	if a.awaited != nil {
		a.awaited.Begun(a.key)
		a.awaited = nil
	}
}

// keep ends that time when an answer has begun, and fails if the monitor just ended the attempt:
// the rest of such an answer does not come.
func (a *singleAttempt) keep() error {
	a.endWait()
	if a.x.canceler.Canceled() {
		return upstream.ErrCanceled
	}
	return nil
}

// answerBegan marks the prompt as prefilled, unless the answer is an error: then nothing was
// computed.
func (a *singleAttempt) answerBegan(status int) {
	now := time.Now()
	a.span.Answered(status)
	a.x.answer.firstAt = now
	if a.found.cause == causeNone {
		a.lease.FirstByteAt(now)
		a.flight.Prefilled()
		a.x.h.admission.freed()
	}
}

// showsPrefill reports whether the first byte of a stream comes when the prompt is prefilled as it
// was predicted. Answers in one piece come at their end, as do those of /v1/responses with tools,
// and a prompt with log probabilities is computed as a whole.
func (a *singleAttempt) showsPrefill() bool {
	x := a.x
	return x.inference && !x.req.PromptLogprobs && !x.req.Batch && !x.prompt.turn.head.Tools
}

// stop implements attempt: nothing runs beside the answer.
func (a *singleAttempt) stop(bool) {}

// abort implements attempt.
func (a *singleAttempt) abort() {
	if x := a.x; x.inference {
		x.h.aborts.send(x.choice.decision.Rank.Worker, x.call.name(), x.id.all(&x.req))
	}
}

// end gives back the load and the prediction of the attempt.
func (a *singleAttempt) end() {
	h, c := a.x.h, &a.x.choice
	a.endWait()
	a.lease.End()
	h.admission.freed()
	h.Router.Withdraw(a.flight)
	a.flight = nil
	if c.decision.Rank != nil {
		h.Router.Failed(&c.scratch, &c.decision)
	}
}

func (a *singleAttempt) reset() {
	a.request, a.lease, a.found = upstream.Request{}, worker.Lease{}, finding{}
	a.sent, a.failedLeg, a.span = time.Time{}, legPrefill, nil
}
