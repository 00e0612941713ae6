package request

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// prefillLeg is the half of a pair's request that goes to the prefill worker. Its answer
// only says that the prompt is computed. Its goroutine runs from start until it sends to over; the
// fields that it writes may be read after that.
type prefillLeg struct {
	h        *Handler
	x        *exchange
	rank     *worker.Rank
	request  upstream.Request
	canceler upstream.Canceler
	lease    worker.Lease
	flight   *routing.Prediction
	key      uint64 // of the wait at the worker's monitor
	sent     time.Time
	span     *tracing.Attempt // nil: it has none
	reply    prefillReply
	err      error // of the leg
	race     *legRace

	run    func() // work, as a value made once
	onHang func(dead bool) bool
	hung   atomic.Bool
	over   chan struct{} // has room: the goroutine has ended
}

func (l *prefillLeg) init(x *exchange, race *legRace) {
	l.h, l.x, l.race, l.over = x.h, x, race, make(chan struct{}, 1)
	l.reply.discard = make([]byte, 4<<10)
	l.run = l.work
	l.onHang = func(dead bool) bool {
		if !dead && (x.prompt.turn.once || !x.choice.elsewhere(l.rank)) {
			return false
		}
		l.hung.Store(true)
		l.canceler.Cancel()
		return true
	}
}

// awaitDecode ends the decode leg if its worker does not begin in the time that it has after the
// prefill. Time in the worker's own queue does not count, nor that of a hang that leaves no other
// worker.
func (l *prefillLeg) awaitDecode(prefilled time.Time) {
	rank := l.x.choice.decision.Decode
	look := rank.Load.Look(prefilled)
	l.race.awaitDecode(func() time.Duration { return l.h.live().Pair.Timeout }, func(limit time.Duration) bool {
		if rank.Worker.State() == worker.Slow {
			return !l.x.choice.elsewhere(rank)
		}
		now := time.Now()
		queues := rank.Load.Queues(now, look, prefilled, limit)
		look = rank.Load.Look(now)
		return queues
	})
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
		l.h.Router.Withdraw(l.flight)
	} else {
		l.rank.Worker.Succeeded(l.sent)
		l.h.Router.Finish(nil, l.flight, nil, now)
	}
	l.flight = nil
	l.h.admission.freed()
	if l.err == nil && l.reply.events { // else nothing shows that the decode worker has begun
		l.awaitDecode(now)
	}
	l.over <- struct{}{}
}

// ask sends the request and reads the answer to its end.
func (l *prefillLeg) ask() error {
	resp, err := l.h.Transport.Do(&l.canceler, &l.request)
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
