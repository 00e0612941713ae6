package request

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// PairConfig says how requests are sent to pairs of a prefill and a decode worker.
type PairConfig struct {
	// Timeout is how long a stream's decode worker may take to begin once the prefill worker has answered, which it does when the
	// KV pages have arrived: the decode worker then only has to put the request into its batch. Default 30 s; negative: as
	// long as any worker may.
	Timeout time.Duration
	// PrefillTimeout is how long the prefill worker may say nothing. Default: as long as any worker may take to begin.
	PrefillTimeout time.Duration
	// Headers sends what the workers must know of each other in headers instead of the body, for chats:
	// they must run with SGLANG_ENABLE_REQUEST_HEADER_OVERRIDES=1.
	Headers bool
}

func (c *PairConfig) setDefaults(firstByte time.Duration) {
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.PrefillTimeout = cmp.Or(c.PrefillTimeout, firstByte)
}

// pathResponses is the one route that is forwarded unread and still needs both workers of a pair.
const pathResponses = "/v1/responses"

// errManyAnswers is for several answers to one prompt. SGLang 0.5.23 gives all of them the one room of their prompt, and
// their KV pages would meet in it.
var errManyAnswers = openai.BadRequest("n", "Pairs of prefill and decode workers give one answer to a prompt: send n requests.")

// errUnpaired is for a route that neither worker of a pair can answer. What computes without a room gets 400 from them, and an engine
// whose prefill ranks are several dies of it (SGLang 0.5.23, --dp-size 2).
var errUnpaired = openai.BadRequest("", "Pairs of prefill and decode workers do not serve this route: it needs a worker that does both.")

// either reports whether any worker of a pair can answer: what asks for a description, or is computed outside the model.
func either(c call) bool {
	switch string(c.path()) {
	case "/v1/tokenize", "/tokenize", "/v1/detokenize", "/detokenize":
		return true
	default:
		return string(c.method()) != fasthttp.MethodPost
	}
}

// choose picks the rank for the next attempt, or the pair.
func (e *exchange) choose(c call) (routing.Decision, error) {
	d, err := e.pick()
	for errors.Is(err, routing.ErrNoWorker) && e.relent() {
		d, err = e.pick()
	}
	switch {
	case err != nil || d.Decode == nil:
	case !e.inferred && either(c):
		d.Decode = nil
	case !e.inferred && string(c.path()) != pathResponses:
		return e.chooseOne(errUnpaired)
	case e.req.N > 1:
		return e.chooseOne(errManyAnswers)
	}
	return d, err
}

// chooseOne picks a worker that does both halves; refusal is what is said where there is none.
func (e *exchange) chooseOne(refusal error) (routing.Decision, error) {
	e.prompt.Unpaired = true
	d, err := e.pick()
	if errors.Is(err, routing.ErrNoWorker) {
		err = refusal
	}
	return d, err
}

// attemptPair sends the request to the decision's two ranks at once. Its error is nil for an answer that is the client's,
// errClient where the prefill worker's refusal is, and else says what failed: who is to blame is among e.tried by then.
func (e *exchange) attemptPair(c call) (*upstream.Response, error) {
	d := &e.decision
	if e.leg == nil {
		e.leg = newPrefillLeg(e)
	}
	l := e.leg
	e.composePair(c)
	sure := e.prompt.Exact && !e.prompt.Opaque
	e.lease = d.Decode.Load.BeginLeg(d.DecodeTokens(), d.Work(e.prompt.Output, sure))
	now := time.Now()
	e.sent, l.sent = now, now
	l.lease = d.Rank.Load.BeginWork(now, d.Work(1, sure)) // the decode worker generates
	e.seatedPair(now)
	l.flight = e.s.Router.Dispatch(&e.scratch, &e.prompt, d)
	e.s.Router.Sent(&e.scratch, d)
	e.awaited = d.Decode.Worker
	e.key = e.awaited.Await(e.onHang)
	e.paired = true
	l.start(d.Rank)
	resp, err := e.s.Transport.Do(&e.canceler, &e.upstream)
	if err == nil {
		if err = e.judge(c, resp); err == nil {
			err = e.kept()
		}
		if err == nil {
			e.pairBegan(resp)
			return resp, nil
		}
		_ = resp.Close()
	}
	return nil, e.pairFailed(err)
}

// judge waits for the beginning of the decode worker's answer, and says whether it is the client's.
func (e *exchange) judge(c call, resp *upstream.Response) error {
	l := e.leg
	var f finding
	if resp.Status >= fasthttp.StatusInternalServerError {
		n, err := e.fill(resp, func([]byte, bool) bool { return false })
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		resp.Unread(e.begin[:n])
		f = found(resp.Status, disagg.SpeaksOfTransfer(e.begin[:n]))
	} else {
		var err error
		if f, err = e.examine(c, resp); err != nil {
			return err
		}
	}
	switch f.kind {
	case busy:
		if kept, err := resp.Keep(disagg.MaxEvent); err == nil {
			e.hold(kept, f, e.decision.Decode)
		}
		return errRefused
	case broke:
		return statusError(f.status, f.transfer)
	}
	refused := f.kind == denied
	if e.found = f; e.req.PromptLogprobs && !refused && resp.Status == fasthttp.StatusOK {
		if err := e.awaitPrefill(); err != nil {
			return err
		}
	}
	if !l.settle() {
		return upstream.ErrCanceled // by the other leg
	}
	if refused {
		e.stopLegs(true) // nobody will come to meet it
	}
	return nil
}

// awaitPrefill waits for the prefill worker's whole answer: the log probabilities in it belong before anything that the client
// gets. The decode worker has begun, so it must be about to come.
func (e *exchange) awaitPrefill() error {
	l := e.leg
	l.release()
	timeout := l.s.live().Pair.Timeout
	if timeout < 0 {
		timeout = l.s.live().FirstByteTimeout
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-l.over:
		l.over <- struct{}{} // for stop
	case <-timer.C:
		return errLate
	}
	if l.err != nil {
		return l.err
	}
	kind := disagg.Generate
	if e.api == openai.APICompletions {
		kind = disagg.Echo
	}
	// Without them the answer is still one, as it is with SGLang's own load balancer.
	l.merges = l.merger.Reset(kind, l.events, l.answer) == nil
	e.s.metrics.pairs.merged(l.merges)
	return nil
}

// pairBegan notes that the decode worker's answer is the client's.
func (e *exchange) pairBegan(resp *upstream.Response) {
	e.firstByte()
	if e.leg.events && resp.Status == fasthttp.StatusOK {
		var lag time.Duration
		if done := e.leg.done.Load(); done != 0 {
			lag = max(e.firstAt.Sub(time.Unix(0, done)), 0)
		}
		e.s.metrics.pairs.lag.Observe(lag.Seconds())
	}
}

// The legs of a pair, as metrics name them.
const (
	legPrefill = "prefill"
	legDecode  = "decode"
)

// stopLegs ends the prefill leg where it still runs, and tells its worker so if abort is set: closing the connection does not
// reliably do it.
func (e *exchange) stopLegs(abort bool) {
	if !e.paired {
		return
	}
	e.paired = false
	l := e.leg
	l.stop()
	if abort && errors.Is(l.err, upstream.ErrCanceled) {
		e.abortAt(l.rank.Worker, legPrefill)
	}
}

// pairFailed ends an attempt at a pair: it stops what still runs, finds out who is to blame, and gives back what the attempt was
// counted with. err is what the decode leg ended with.
func (e *exchange) pairFailed(err error) error {
	d, l := &e.decision, e.leg
	e.stopLegs(true)
	blamed, failed := legDecode, d.Decode
	e.failed = 1
	switch {
	case e.client.Gone(): // giveUp aborts the decode leg
		e.endPair()
		return err
	case l.first:
		blamed, failed, err, e.failed = legPrefill, d.Rank, l.err, 0
	case l.late:
		err = fmt.Errorf("cannot get answer of %s: %w", d.Decode.ID(), errLate)
	case errors.Is(err, upstream.ErrCanceled): // neither by the client nor by the other leg: by the monitor
		err = fmt.Errorf("cannot get answer of %s: %w", d.Decode.ID(), errHung)
	}
	if blamed == legPrefill || errors.Is(err, errLate) || errors.Is(err, errHung) {
		e.abortAt(d.Decode.Worker, legDecode)
	}
	e.endPair()
	if e.canceler.Canceled() {
		e.canceler.Reset()
		if e.client.Gone() { // just now, and its cancel was reset with it
			return upstream.ErrCanceled
		}
	}
	if errors.Is(err, errClient) {
		e.found = finding{kind: denied, status: l.denied}
		return err
	}
	if blamed == legPrefill && errors.Is(err, errRefused) {
		e.hold(upstream.NewKept(l.status, l.mime, l.answer), found(l.status, false), d.Rank)
	}
	e.s.metrics.pairs.failed(blamed, causeOf(err))
	e.blame(failed, err)
	other := l.err
	switch {
	case errors.Is(err, errTransfer), errors.Is(err, errLate):
		e.doubt(failed)
	case blamed == legDecode && other != nil && !errors.Is(other, upstream.ErrCanceled) && !errors.Is(other, errClient):
		e.blame(d.Rank, other) // each by itself
	}
	return err
}

// endPair gives back what the attempt at a pair was counted with.
func (e *exchange) endPair() {
	e.endAttempt()
	e.begun()
}

// blame counts a failure as a rank's, which is not asked again.
func (e *exchange) blame(rank *worker.Rank, err error) {
	rank.Count.Errors.Add(1)
	if silenced(err) {
		rank.Worker.Suspect()
	}
	if !errors.Is(err, errRefused) { // which is what a worker that starts, stops or is full says
		rank.Worker.Fault(time.Now())
	}
	e.tried = append(e.tried, rank)
}

// doubt counts a failure of the way between a pair's ranks as that of both: the one of them that is not at fault is cleared by
// its next answer together with another one. Who else is there is asked first; see relent.
func (e *exchange) doubt(reporter *worker.Rank) {
	partner := e.decision.Rank
	if reporter == partner {
		partner = e.decision.Decode
	}
	partner.Worker.Fault(time.Now())
	e.tried = append(e.tried, partner)
	e.doubted = append(e.doubted[:0], reporter, partner)
}

// relent lets a rank be asked again that was only suspected, and first the one that reported the failure: it was there to.
func (e *exchange) relent() bool {
	if len(e.doubted) == 0 {
		return false
	}
	e.identify() // the abort of the attempt before, of which one comes a second later, must not meet this one
	rank := e.doubted[0]
	e.doubted = e.doubted[1:]
	e.tried = slices.DeleteFunc(e.tried, func(r *worker.Rank) bool { return r == rank })
	return true
}

// causeOf names a failure to metrics.
func causeOf(err error) string {
	switch {
	case errors.Is(err, errRefused):
		return "refused"
	case errors.Is(err, errTransfer):
		return "transfer"
	case errors.Is(err, errFailed):
		return "error"
	case errors.Is(err, errLate):
		return "late"
	case errors.Is(err, errHung):
		return "hung"
	case errors.Is(err, upstream.ErrDial):
		return "unreachable"
	case errors.Is(err, upstream.ErrTimeout):
		return "timeout"
	case errors.Is(err, upstream.ErrNoResponse), errors.Is(err, upstream.ErrTruncated):
		return "died"
	default:
		return "other"
	}
}

// tryAnotherPair is tryAnother for the prefill worker's refusal.
func (e *exchange) tryAnotherPair(c call) bool {
	l, rank := e.leg, e.decision.Rank
	if !e.asksAgain(c, e.found, rank) {
		return false
	}
	e.hold(upstream.NewKept(l.status, l.mime, l.answer), e.found, rank)
	return true
}

// passRefusal makes the prefill worker's refusal the client's answer: the decode worker's would be the same.
func (e *exchange) passRefusal(c call) {
	l := e.leg
	ctx := c.ctx
	ctx.Response.ResetBody()
	ctx.SetStatusCode(l.status)
	ctx.SetContentTypeBytes(l.mime)
	ctx.SetBody(l.answer)
	ctx.Response.Header.Set(headerPrefill, e.decision.Rank.ID())
	e.s.metrics.passed(e.decision.Rank, l.status)
	e.release()
}
