package request

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/routing"
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
// exchange.single. prefillLeg has a goroutine of its own, which stop waits for before any memory
// of the request is given back.
type pairAttempt struct {
	x       *exchange
	prefill prefillLeg
	race    legRace
	merger  disagg.Merger
	merges  bool // the prefill worker's log probabilities go into the decode worker's answer
	running bool // the prefill leg was started, and not stopped
}

func newPairAttempt(x *exchange) *pairAttempt {
	p := &pairAttempt{x: x}
	p.race.init(&x.canceler)
	p.prefill.init(p)
	return p
}

// send sends the request to the decision's two ranks, again on new connections where a kept-alive
// one was closed: the worker never had the request, and its partner may have begun it, so both get
// it anew, in another room. The error is nil for an answer that is the client's, and errClient
// where the prefill worker's refusal is. After any other error the rank at fault is excluded from
// the choice.
func (p *pairAttempt) send() (*upstream.Response, error) {
	resp, err := p.sendOnce(false)
	if errors.Is(err, upstream.ErrStale) && !p.x.client.Gone() {
		renewID(p.x)
		resp, err = p.sendOnce(true)
	}
	return resp, err
}

// sendOnce is send on the connections that are there, or on fresh ones.
func (p *pairAttempt) sendOnce(fresh bool) (*upstream.Response, error) {
	x, l, a := p.x, &p.prefill, &p.x.single
	d, prompt := &x.choice.decision, &x.choice.prompt
	p.reset()
	l.reply.events, l.reply.wanted, l.reply.api = x.req.Stream, x.req.PromptLogprobs, x.api
	l.reply.judged = x.repeatable()
	a.span, l.span = x.trace.Attempt(tracing.StepFirstByte, d.Decode.ID()), x.trace.Attempt(tracing.StepPrefill, d.Rank.ID())
	l.request, a.request = x.body.pair()
	l.request.Fresh, a.request.Fresh = fresh || l.request.Fresh, fresh || a.request.Fresh
	exact := x.prompt.complete()
	a.lease = d.Decode.Load.BeginLeg(d.DecodeTokens(), d.Work(prompt.Output, exact))
	now := time.Now()
	a.sent = now
	l.lease = d.Rank.Load.BeginWork(now, d.Work(1, exact)) // the decode worker generates
	x.h.admission.dispatched(&x.choice, now)
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
	f, err := x.answer.examine(resp)
	if err != nil {
		return err
	}
	switch f.cause {
	case causeBusy:
		if kept, err := resp.Keep(maxErrorAnswer); err == nil {
			x.errors.hold(kept, f, x.choice.decision.Decode)
		}
		return errRefused
	case causeBroken, causeTransfer:
		// A status of 200 and no error is no answer that another pair could confirm.
		if f.cause == causeBroken && (resp.Status >= fasthttp.StatusInternalServerError || isEventStream(resp.Peek(fasthttp.HeaderContentType))) {
			if kept, err := resp.Keep(maxErrorAnswer); err == nil {
				x.errors.keep(kept, f, x.choice.decision.Decode)
			}
		}
		return f.cause.err()
	}
	refused := f.cause == causeInvalid
	if x.single.found = f; x.req.PromptLogprobs && !refused && resp.Status == fasthttp.StatusOK {
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
	read := int64(0)
	grows := func(time.Duration) bool { // log probabilities of a long prompt
		before := read
		read = l.reply.length.Load()
		return read != before
	}
	if !await(time.NewTimer(timeout), l.over, func() time.Duration { return timeout }, grows) {
		return errLate
	}
	l.over <- struct{}{} // for stop
	if l.err != nil {
		return l.err
	}
	kind := disagg.Generate
	if x.api == openai.APICompletions {
		kind = disagg.Echo
	}
	// An answer without them is still one, as it is with SGLang's own load balancer.
	p.merges = p.merger.Reset(kind, l.reply.events, l.reply.body) == nil
	result := "missing"
	if p.merges {
		result = "merged"
	}
	x.h.metrics.pairMerges.WithLabelValues(result).Inc()
	return nil
}

// answerBegan notes that the decode worker's answer is the client's.
func (p *pairAttempt) answerBegan(resp *upstream.Response) {
	p.x.single.answerBegan(resp.Status)
	if p.prefill.reply.events && resp.Status == fasthttp.StatusOK {
		prefilled := p.race.prefilledAt.Load()
		if prefilled == 0 { // just now: the prefill worker's word is on its way
			prefilled = p.x.answer.firstAt.UnixNano()
		}
		p.x.choice.decision.Decode.Load.BegunPair(prefilled)
		p.x.h.metrics.pairLag.Observe(p.race.lag(p.x.answer.firstAt).Seconds())
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
	if abort && l.err != nil && (errors.Is(l.err, upstream.ErrCanceled) || causeOf(l.err).leadsTo(stop)) {
		p.abortLeg(l.rank.Worker, legPrefill)
	}
}

// abort implements attempt: stop has aborted the prefill leg.
func (p *pairAttempt) abort() { p.abortLeg(p.x.choice.decision.Decode.Worker, legDecode) }

// abortLeg has one worker of the pair stop.
func (p *pairAttempt) abortLeg(w *worker.Worker, which leg) {
	if x := p.x; x.inference {
		x.h.metrics.pairAborts.WithLabelValues(which.String()).Inc()
		x.h.aborts.send(w, x.call.name(), x.id.all(&x.req))
	}
}

// failed ends a failed attempt: it stops the other leg, finds the leg at fault, and gives back load
// and prediction. err is the decode leg's failure.
func (p *pairAttempt) failed(err error) error {
	x, d, l := p.x, &p.x.choice.decision, &p.prefill
	x.single.span.Failed(err)
	p.stop(true)
	at, rank := legDecode, d.Decode
	x.single.failedLeg = legDecode
	switch {
	case x.client.Gone(): // abandon aborts the decode leg
		x.single.end()
		return err
	case p.race.prefillFailed:
		at, rank, err = legPrefill, d.Rank, l.err
		x.single.failedLeg = legPrefill
	case p.race.decodeLate:
		err = fmt.Errorf("cannot get answer of %s: %w", d.Decode.ID(), errLate)
	case errors.Is(err, upstream.ErrCanceled): // by the monitor: neither by client nor prefill leg
		err = fmt.Errorf("cannot get answer of %s: %w", d.Decode.ID(), errHung)
	}
	c := causeOf(err)
	if at == legPrefill || c.leadsTo(stop) {
		p.abort()
	}
	x.single.end()
	if x.canceler.Canceled() {
		x.canceler.Reset()
		if x.client.Gone() { // just now, and its cancel was reset with the monitor's
			return upstream.ErrCanceled
		}
	}
	switch {
	case c == causeInvalid:
		x.single.found = finding{cause: c, status: l.reply.refusal}
		return err
	case errors.Is(err, upstream.ErrStale):
		return err // nobody's fault
	}
	if at == legPrefill && c == causeBusy {
		x.errors.hold(l.reply.kept, findingOf(l.reply.refusal, false), d.Rank)
	}
	if errors.Is(l.err, errFailed) {
		x.errors.keep(l.reply.kept, findingOf(l.reply.refusal, false), d.Rank)
	}
	x.h.metrics.pairFailures.WithLabelValues(at.String(), failures[c].label).Inc()
	p.blame(rank, c)
	switch {
	// Until the prefill worker has answered, each worker may wait for the other one.
	case failures[c].fault == faultEither, c == causeTimeout && p.race.prefilledAt.Load() == 0:
		p.suspectBoth(rank, c)
	case at == legDecode && l.err != nil &&
		!errors.Is(l.err, upstream.ErrCanceled) && !errors.Is(l.err, errClient):
		p.blame(d.Rank, causeOf(l.err)) // each leg failed by itself
	}
	return err
}

// partner returns the other rank of the pair.
func (p *pairAttempt) partner(rank *worker.Rank) *worker.Rank {
	if d := &p.x.choice.decision; rank == d.Rank {
		return d.Decode
	}
	return p.x.choice.decision.Rank
}

// excused reports whether a rank had nothing to say in time because it has waited for the other one
// of the pair: its scheduler runs, and the other's does not.
func (p *pairAttempt) excused(rank *worker.Rank, c cause) bool {
	now := time.Now()
	return (c == causeLate || c == causeTimeout) && rank.Load.Reporting(now) && !p.partner(rank).Load.Reporting(now)
}

// blame is exchange.blame for a rank of the pair.
func (p *pairAttempt) blame(rank *worker.Rank, c cause) { p.x.blame(rank, c, p.excused(rank, c)) }

// suspectBoth counts a failure of the transfer between the legs against both ranks: the innocent
// one is cleared by its next answer together with another rank. Other ranks are tried first; see
// choice.retrySuspect.
func (p *pairAttempt) suspectBoth(reporter *worker.Rank, why cause) {
	c, partner := &p.x.choice, p.partner(reporter)
	if !p.excused(partner, why) {
		p.x.errors.failed(partner, why)
	}
	c.exclude(partner)
	c.suspect(reporter, partner)
}

// reset makes the attempt ready for the next one. Its goroutine has ended.
func (p *pairAttempt) reset() {
	p.race.reset()
	p.prefill.reset()
	p.merger.Release()
	p.merges = false
}

// legRace decides which leg's outcome counts: the leg that fails first ends the other one, unless
// the decode worker's answer stands by then.
type legRace struct {
	decode *upstream.Canceler // of the decode leg
	// Has room: the decode worker's answer has begun, or is not waited for.
	decodeBegan chan struct{}
	timer       *time.Timer  // of the decode worker's lag
	prefilledAt atomic.Int64 // unix nanoseconds; 0: the prompt is not computed

	mu            sync.Mutex
	answerStands  bool // guarded by mu
	prefillFailed bool // before the answer stood; guarded by mu
	decodeLate    bool // guarded by mu
}

func (r *legRace) init(decode *upstream.Canceler) {
	r.decode, r.decodeBegan, r.timer = decode, make(chan struct{}, 1), time.NewTimer(time.Hour)
	r.timer.Stop()
}

// accept has the decode worker's answer stand, and reports whether it may: the prefill leg has not
// failed before.
func (r *legRace) accept() bool {
	r.mu.Lock()
	r.answerStands = !r.prefillFailed
	stands := r.answerStands
	r.mu.Unlock()
	r.release()
	return stands
}

// release ends the wait for the decode worker.
func (r *legRace) release() {
	select {
	case r.decodeBegan <- struct{}{}:
	default:
	}
}

// failPrefill ends the decode leg, unless its answer stands or it was the leg that ended this one.
func (r *legRace) failPrefill(err error) {
	if errors.Is(err, upstream.ErrCanceled) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.answerStands {
		r.prefillFailed = true
		r.decode.Cancel()
	}
}

// looks is how often a wait checks for an excuse within its time. It counts checks and not time, so
// that a pause of the router itself does not count against the worker.
const looks = 8

// await waits for done, and reports false where that takes longer than timeout, negative for any
// time. The time begins anew with each look at which excused reports true.
func await(timer *time.Timer, done <-chan struct{}, timeout func() time.Duration, excused func(limit time.Duration) bool) bool {
	defer timer.Stop()
	for n := 0; n < looks; n++ {
		limit := timeout()
		if limit < 0 {
			<-done
			return true
		}
		timer.Reset(max(limit/looks, time.Millisecond))
		select {
		case <-done:
			return true
		case <-timer.C:
		}
		if excused(limit) {
			n = -1
		}
	}
	return false
}

// endDecode ends the decode leg, which lags behind the prefill leg.
func (r *legRace) endDecode() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.answerStands {
		r.decodeLate = true
		r.decode.Cancel()
	}
}

// lag returns the time from the end of the prefill to the decode worker's first event.
func (r *legRace) lag(firstAt time.Time) time.Duration {
	at := r.prefilledAt.Load()
	if at == 0 {
		return 0
	}
	return max(firstAt.Sub(time.Unix(0, at)), 0)
}

// reset makes the race ready for the next request. No leg runs.
func (r *legRace) reset() {
	select {
	case <-r.decodeBegan:
	default:
	}
	r.prefilledAt.Store(0)
	r.answerStands, r.prefillFailed, r.decodeLate = false, false, false
}

// prefillLeg is the half of a pair's request that goes to the prefill worker. Its answer
// only says that the prompt is computed. Its goroutine runs from start until it sends to over; the
// fields that it writes may be read after that.
type prefillLeg struct {
	x        *exchange
	rank     *worker.Rank
	request  upstream.Request
	canceler upstream.Canceler
	lease    worker.Lease
	flight   *routing.Prediction
	key      uint64           // of the wait at the worker's monitor
	span     *tracing.Attempt // nil: it has none
	reply    prefillReply
	err      error // of the leg
	race     *legRace

	run    func() // work, as a value made once
	onHang func(dead bool) bool
	hung   atomic.Bool
	over   chan struct{} // has room: the goroutine has ended
}

func (l *prefillLeg) init(p *pairAttempt) {
	x := p.x
	l.x, l.race, l.over = x, &p.race, make(chan struct{}, 1)
	l.reply.discard = make([]byte, 4<<10)
	l.run = l.work
	l.onHang = func(dead bool) bool {
		leaves := x.leaves(l.rank, dead)
		if leaves {
			l.hung.Store(true)
			l.canceler.Cancel()
		}
		return leaves
	}
}

// awaitDecode ends the decode leg if its worker does not begin in the time that it has after the
// prefill. Time in the worker's own queue does not count, nor that of a hang that leaves no other
// worker.
func (l *prefillLeg) awaitDecode(prefilled time.Time) {
	rank := l.x.choice.decision.Decode
	look := rank.Load.Look(prefilled)
	timeout := func() time.Duration { return l.x.h.live().Pair.Timeout }
	if !await(l.race.timer, l.race.decodeBegan, timeout, func(limit time.Duration) bool {
		if rank.Worker.State() == worker.Slow {
			return !l.x.choice.elsewhere(rank)
		}
		now := time.Now()
		queues := rank.Load.Queues(now, look, prefilled, limit)
		look = rank.Load.Look(now)
		return queues
	}) {
		l.race.endDecode()
	}
}

// start sends the request to rank. All other fields that the leg needs are set.
func (l *prefillLeg) start(rank *worker.Rank) {
	l.rank = rank
	l.key = rank.Worker.Await(l.onHang)
	l.race.decode.Join(&l.canceler) // a cancel of the decode leg, also by the client, ends both
	go l.run()
}

// stop ends the leg, wherever it is, and waits for it.
func (l *prefillLeg) stop() {
	l.race.release()
	l.canceler.Cancel()
	<-l.over
	l.race.decode.Join(nil)
}

// work runs the leg.
func (l *prefillLeg) work() {
	l.err = l.ask()
	now := time.Now()
	if l.err != nil {
		l.race.failPrefill(l.err)
		l.span.Failed(l.err)
	} else {
		l.span.Answered(l.reply.status)
		l.race.prefilledAt.Store(now.UnixNano())
	}
	l.rank.Worker.Begun(l.key)
	l.lease.End()
	if l.err != nil {
		l.x.h.Router.Withdraw(l.flight)
	} else {
		l.rank.Worker.Succeeded(l.x.single.sent)
		l.x.h.Router.Finish(nil, l.flight, nil, now)
	}
	l.flight = nil
	l.x.h.admission.freed()
	if l.err == nil && l.reply.events { // else nothing shows that the decode worker has begun
		l.awaitDecode(now)
	}
	l.over <- struct{}{}
}

// ask sends the request and reads the answer to its end.
func (l *prefillLeg) ask() error {
	resp, err := l.x.h.Transport.Do(&l.canceler, &l.request)
	if err != nil {
		return l.failed(err)
	}
	defer func() { _ = resp.Close() }()
	r := &l.reply
	r.status = resp.Status
	if err := r.read(resp); err != nil {
		if r.refusal != 0 {
			r.kept = resp.KeepAs(r.body)
		}
		return l.failed(err)
	}
	if r.status >= fasthttp.StatusBadRequest {
		r.refusal, r.kept = r.status, resp.KeepAs(r.body)
	}
	return causeOfStatus(r.status, r.status >= fasthttp.StatusInternalServerError && disagg.IsTransferError(r.body)).err()
}

// failed wraps a failure of the connection.
func (l *prefillLeg) failed(err error) error {
	if l.hung.Load() && errors.Is(err, upstream.ErrCanceled) {
		// The cancel itself is left out: with it, the decode leg would be taken for the cause.
		return fmt.Errorf("cannot get answer of %s: %w", l.rank.ID(), errHung)
	}
	return fmt.Errorf("cannot get answer of %s: %w", l.rank.ID(), err)
}

// reset makes the leg ready for the next request. Its goroutine has ended.
func (l *prefillLeg) reset() {
	l.canceler.Reset()
	l.hung.Store(false)
	l.err, l.rank, l.lease, l.key, l.span = nil, nil, worker.Lease{}, 0, nil
	l.request = upstream.Request{}
	l.reply.reset()
}

const (
	// maxReply bounds the part of a prefill worker's answer that is kept: enough for a refusal.
	maxReply = disagg.MaxEvent
	// maxLogprobs bounds an answer with log probabilities: 256 MiB are a million tokens with the
	// ten likeliest of each.
	maxLogprobs = 256 << 20
)

// prefillReply is the prefill worker's answer.
type prefillReply struct {
	status  int
	refusal int          // status of an error, which a status of 200 may hide
	body    []byte       // its beginning, or all of it
	discard []byte       // buffer for the rest
	length  atomic.Int64 // of the bytes read
	events  bool         // it is a stream
	wanted  bool         // all of it
	judged  bool         // it must have the form of its API
	api     openai.API
	kept    *upstream.Kept // an answer that may become the client's: an error
}

// read reads the answer to its end, and looks at the first event of a stream. A worker that says
// anything else has computed nothing: the decode worker would wait for it in vain.
func (r *prefillReply) read(resp *upstream.Response) error {
	limit := maxReply
	if r.wanted && r.status == fasthttp.StatusOK {
		limit = maxLogprobs
	}
	if r.judged && r.status == fasthttp.StatusOK && isCoded(resp) {
		return errFailed
	}
	verdict := disagg.Good
	if r.events && r.status == fasthttp.StatusOK {
		verdict = disagg.More
	}
	for {
		buf := r.discard
		if len(r.body) < limit {
			buf = r.grow(limit)
		}
		n, err := resp.Read(buf)
		r.length.Add(int64(n))
		if len(r.body) < limit {
			r.body = r.body[:len(r.body)+n]
		}
		if verdict == disagg.More {
			var f disagg.Failure
			switch verdict, f = disagg.JudgeStream(r.api, r.body, errors.Is(err, io.EOF)); {
			case len(r.body) >= limit && verdict == disagg.More:
				verdict = disagg.Good // no more of it is kept
			case verdict == disagg.Failed:
				return r.readError(resp, f)
			}
		}
		if errors.Is(err, io.EOF) {
			if r.wanted && len(r.body) >= maxLogprobs {
				return fmt.Errorf("%w: more than %d bytes of log probabilities", errFailed, maxLogprobs)
			}
			return r.judge(resp, limit)
		}
		if err != nil {
			return err
		}
	}
}

// judge judges a whole answer.
func (r *prefillReply) judge(resp *upstream.Response, limit int) error {
	switch {
	case !r.judged || r.status >= fasthttp.StatusBadRequest:
		return nil
	case r.status != fasthttp.StatusOK:
		return errFailed
	case r.events || len(r.body) >= limit:
		return nil
	}
	verdict, f := disagg.JudgeAnswer(disagg.FormOf(r.api), r.body, true, nil)
	switch {
	case verdict != disagg.Failed:
		return nil
	case f == disagg.NoAnswer:
		return errFailed // no other pair could confirm it
	}
	return r.readError(resp, f)
}

// grow returns memory behind the body, and allocates some.
func (r *prefillReply) grow(limit int) []byte {
	n := len(r.body)
	if cap(r.body)-n < 512 {
		grown := make([]byte, n, min(max(2*cap(r.body), maxReply), limit+512))
		copy(grown, r.body)
		r.body = grown
	}
	return r.body[n:min(cap(r.body), limit)]
}

// readError takes in an error inside an answer of status 200. An error of the client's is read to
// its end, for the client.
func (r *prefillReply) readError(resp *upstream.Response, f disagg.Failure) error {
	r.refusal = f.Status
	if c := causeOfStatus(f.Status, f.Transfer); c != causeInvalid {
		return c.err()
	}
	for len(r.body) < maxReply {
		n, err := resp.Read(r.grow(maxReply))
		r.body = r.body[:len(r.body)+n]
		if err != nil {
			break
		}
	}
	return errClient
}

func (r *prefillReply) reset() {
	r.status, r.refusal, r.events, r.wanted, r.judged, r.kept = 0, 0, false, false, false, nil
	r.length.Store(0)
	r.body = emptied(r.body)
}
