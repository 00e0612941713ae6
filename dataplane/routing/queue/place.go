package queue

import (
	"fmt"
	"math"
	"time"
)

// outcome is what became of a waiter.
type outcome uint8

const (
	waiting outcome = iota
	passed
	leftGone
	leftLate
	leftDisplaced
	leftClosed
)

// end tells a waiter what became of it. It holds no lock that a receiver could want, and done has room.
func (w *Waiter) end(o outcome) {
	w.out = o
	w.done <- struct{}{}
}

// result is what Enter returns to a waiter that was told.
func (g *Gate) result(place Place, w *Waiter, waited time.Duration) (Place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.resultLocked(place, w, waited)
}

func (g *Gate) resultLocked(place Place, w *Waiter, waited time.Duration) (Place, error) {
	switch w.out {
	case passed:
		place.lane, place.popped, place.Waited = w.lane, w.lane != nil, waited
		g.finished.Passed++
		g.finished.Waited += waited
		return place, nil
	case leftDisplaced:
		g.finished.RefusedDisplaced++
		return Place{}, place.pool.refusal(ReasonDisplaced, g.now())
	case leftLate:
		g.finished.RefusedLate++
		return Place{}, place.pool.refusal(ReasonDeadline, g.now())
	case leftGone:
		g.finished.Gone++
		return Place{}, ErrGone
	default:
		return Place{}, ErrClosed
	}
}

// leave takes out a waiter that waits no longer, unless it was told something just now.
func (g *Gate) leave(place Place, w *Waiter, why outcome, waited time.Duration) (Place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.out == waiting:
		place.pool.order.Remove(w)
		w.out = why
	case w.out == passed && why == leftGone: // it got a place that it has no use for
		place.lane = w.lane
		place.giveLocked()
		w.out = leftGone
	}
	return g.resultLocked(place, w, waited)
}

// Place is the right to send one request. The zero value is one that need not be told of anything.
type Place struct {
	Waited time.Duration // in the queue

	g      *Gate
	pool   *pool
	lane   any // that room is kept on; nil: none
	popped bool
	branch Branch
}

// Lane returns the lane that has room for the request; nil: the gate does not say.
func (p *Place) Lane() any { return p.lane }

// Began tells that the request is now counted as the load of a lane.
func (p *Place) Began(key any) {
	if p.g == nil {
		return
	}
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	if !p.popped || key != p.lane { // else Pop has given it to the lane
		p.pool.order.Give(key, p.branch)
	}
	p.giveLocked()
	*p = Place{}
}

// Give gives back what was not used; after Began it does nothing.
func (p *Place) Give() {
	if p.g == nil {
		return
	}
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	p.giveLocked()
	*p = Place{}
}

// giveLocked ends the keeping of room, which somebody else may now have.
func (p *Place) giveLocked() {
	if p.lane == nil {
		return
	}
	if p.pool.held[p.lane]--; p.pool.held[p.lane] <= 0 {
		delete(p.pool.held, p.lane)
	}
	p.lane = nil
	p.g.wakeLocked(p.pool)
}

// Reason says why a request was refused.
type Reason string

// The reasons of refusals.
const (
	ReasonFull      Reason = "full"      // the queue is, of requests with no less right to wait
	ReasonDisplaced Reason = "displaced" // it was full, and another request had more right to wait
	ReasonDeadline  Reason = "deadline"  // no rank had room in time
)

// RefusedError says that a request may not wait, or not any longer.
type RefusedError struct {
	Reason     Reason
	RetryAfter time.Duration // whole seconds, until the queue as it is now will have drained
}

// Error implements error.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("queue: refused (%s): retry after %v", r.Reason, r.RetryAfter)
}

// maxRetryAfter bounds what clients are told: beyond it a rate seen a while ago says nothing.
const maxRetryAfter = 5 * time.Minute

// refusal makes one, with the time until the queue will have drained at the rate of late.
func (p *pool) refusal(why Reason, now time.Duration) *RefusedError {
	after := time.Second // nobody has passed yet: as long again as the first one has waited
	if since, ok := p.order.Oldest(); ok {
		after = now - since
	}
	if rate := p.drain.rate(now); rate > 0 {
		seconds := math.Ceil(float64(p.order.Len()+1) / rate)
		after = time.Duration(min(seconds, maxRetryAfter.Seconds())) * time.Second
	}
	return &RefusedError{Reason: why, RetryAfter: min(max(after, time.Second), maxRetryAfter).Round(time.Second)}
}

// drain is how fast requests have left the queue of late.
type drain struct {
	at   [drainWindow]time.Duration // a ring
	next int
	n    int
}

// drainWindow is how many of the last ones tell the rate: enough that a batch of answers that end together weighs little.
const drainWindow = 64

func (d *drain) add(now time.Duration) {
	d.at[d.next] = now
	d.next = (d.next + 1) % drainWindow
	d.n = min(d.n+1, drainWindow)
}

// rate returns requests a second, less the longer none has left; 0 before the first.
func (d *drain) rate(now time.Duration) float64 {
	if d.n == 0 {
		return 0
	}
	oldest := d.at[(d.next-d.n+drainWindow)%drainWindow]
	return float64(d.n) / max(now-oldest, time.Millisecond).Seconds()
}
