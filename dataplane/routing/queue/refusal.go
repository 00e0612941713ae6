package queue

import (
	"fmt"
	"math"
	"time"
)

// Reason is the reason of a refusal.
type Reason string

// The reasons of refusals.
const (
	ReasonFull      Reason = "full"      // the queue is full of requests with no less right to wait
	ReasonDisplaced Reason = "displaced" // a request with more right to wait came to a full queue
	ReasonDeadline  Reason = "deadline"  // its deadline has passed while it waited
	ReasonPredicted Reason = "predicted" // its deadline will have passed when its turn comes
)

// RefusedError is a request that may not wait, or not any longer.
type RefusedError struct {
	Reason     Reason
	RetryAfter time.Duration // whole seconds, until the queue as it is now will have drained
}

// Error implements error.
func (r *RefusedError) Error() string {
	return fmt.Sprintf("queue: refused (%s): retry after %v", r.Reason, r.RetryAfter)
}

// maxRetryAfter bounds the answer to clients: rates of the last minute say nothing of later
// ones.
const maxRetryAfter = 5 * time.Minute

// refusal returns an error with the time until the queue will have drained at its present rate.
func (q *modelQueue) refusal(why Reason, now time.Duration) *RefusedError {
	after := time.Second
	if since, ok := q.order.Oldest(); ok { // without a rate: the wait of the oldest
		after = now - since
	}
	if rate := q.drain.rate(now); rate > 0 {
		seconds := math.Ceil(float64(q.order.Len()+1) / rate)
		after = time.Duration(min(seconds, maxRetryAfter.Seconds())) * time.Second
	}
	return &RefusedError{Reason: why, RetryAfter: min(max(after, time.Second), maxRetryAfter).Round(time.Second)}
}

// drain measures the rate at which requests leave the queue. Its clock runs while requests wait:
// with room left, requests that leave say nothing of how many could.
type drain struct {
	at   [drainWindow]time.Duration // a ring
	next int
	n    int

	stood   time.Duration // for which requests waited, until since
	since   time.Duration // when the queue was last empty
	waiting bool
}

// drainWindow is the number of departures that make the rate: a batch of answers that end
// together is a part of it.
const drainWindow = 1024

// run has the clock run or stand from now on.
func (d *drain) run(waiting bool, now time.Duration) {
	d.stood, d.since, d.waiting = d.clock(now), now, waiting
}

func (d *drain) clock(now time.Duration) time.Duration {
	if d.waiting {
		return d.stood + now - d.since
	}
	return d.stood
}

func (d *drain) add(now time.Duration) {
	d.at[d.next] = d.clock(now)
	d.next = (d.next + 1) % drainWindow
	d.n = min(d.n+1, drainWindow)
}

// rate returns requests per second, which fall while none leaves; 0 before the first.
func (d *drain) rate(now time.Duration) float64 {
	if d.n == 0 {
		return 0
	}
	oldest := d.at[(d.next-d.n+drainWindow)%drainWindow]
	return float64(d.n) / max(d.clock(now)-oldest, time.Millisecond).Seconds()
}

// known reports whether enough requests have left to estimate the rate of ranks that hold so many.
// The first departures are of the shortest answers, or of a whole batch.
func (d *drain) known(held int) bool { return d.n > 0 && d.n >= min(held, drainWindow) }
