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
	ReasonDeadline  Reason = "deadline"  // no rank had room in time
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

// drain measures the rate at which requests leave the queue.
type drain struct {
	at   [drainWindow]time.Duration // a ring
	next int
	n    int
}

// drainWindow is the number of departures that make the rate: a batch of answers that end
// together is a small part of it.
const drainWindow = 64

func (d *drain) add(now time.Duration) {
	d.at[d.next] = now
	d.next = (d.next + 1) % drainWindow
	d.n = min(d.n+1, drainWindow)
}

// rate returns requests per second, which fall while none leaves; 0 before the first.
func (d *drain) rate(now time.Duration) float64 {
	if d.n == 0 {
		return 0
	}
	oldest := d.at[(d.next-d.n+drainWindow)%drainWindow]
	return float64(d.n) / max(now-oldest, time.Millisecond).Seconds()
}
