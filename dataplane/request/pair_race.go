package request

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/upstream"
)

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

// looks is how often a wait looks for an excuse in its time. Looks are counted in place of time, so
// that a router that was held up itself blames nobody for it.
const looks = 8

// awaitDecode ends the decode leg if it lags behind the prefill leg for longer than timeout,
// negative for any time. The time begins anew with each look at which excused reports true.
func (r *legRace) awaitDecode(timeout func() time.Duration, excused func(limit time.Duration) bool) {
	defer r.timer.Stop()
	for n := 0; n < looks; n++ {
		limit := timeout()
		if limit < 0 {
			return
		}
		r.timer.Reset(max(limit/looks, time.Millisecond))
		select {
		case <-r.decodeBegan:
			return
		case <-r.timer.C:
		}
		if excused(limit) {
			n = -1
		}
	}
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
