package worker

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// breakAfter faults in a row, without an answer between them, open a breaker: two may be one death that two requests saw.
	breakAfter = 3
	// openFirst and openMost bound how long it stays open. A restarted engine is found by its probes; this is for workers whose
	// probes are fine and whose requests fail.
	openFirst = time.Second
	openMost  = 30 * time.Second
	// trialFor frees the place of a trial that never reported back: one whose client left, for instance.
	trialFor = 10 * time.Second
)

// Breaker keeps requests away from a worker whose requests fail while its
// probes are answered. Faults are failures that are the worker's; whatever is
// the client's says nothing and must not be told.
//
// It opens after three faults in a row, for 1 s doubling to 30 s, and is half
// open then: one request is tried, and its outcome opens or closes it. The zero
// value is closed.
type Breaker struct {
	faults atomic.Int32 // in a row
	until  atomic.Int64 // unix nanoseconds when it is half open; 0: closed
	trial  atomic.Int64 // unix nanoseconds since when somebody is trying; 0: nobody
	opened atomic.Uint64

	mu   sync.Mutex
	next time.Duration // how long it opens next; guarded by mu
}

// BreakerState is what a breaker lets through.
type BreakerState uint8

const (
	// BreakerClosed lets everything through.
	BreakerClosed BreakerState = iota
	// BreakerOpen lets nothing through while others are there.
	BreakerOpen
	// BreakerHalfOpen lets one request through at a time.
	BreakerHalfOpen
)

// String names the state as /status shows it.
func (s BreakerState) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// Fault counts a failure that is the worker's own.
func (w *Worker) Fault(now time.Time) { w.Breaker.fault(now.UnixNano()) }

// Fine tells that the worker has answered, whatever it said to the client's
// request.
func (w *Worker) Fine() {
	if w.Breaker.faults.Load() != 0 { // else closed, as nearly always
		w.Breaker.Reset()
	}
}

func (b *Breaker) fault(now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	until := b.until.Load()
	if b.faults.Add(1) < breakAfter || now < until { // those that were there when it opened are no news
		return
	}
	if b.next == 0 {
		b.next = openFirst
	}
	b.until.Store(now + int64(b.next))
	b.trial.Store(0)
	b.opened.Add(1)
	b.next = min(2*b.next, openMost)
}

// Reset closes the breaker.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.Store(0)
	b.until.Store(0)
	b.trial.Store(0)
	b.next = 0
}

// State returns what the breaker lets through at a time.
func (b *Breaker) State(now time.Time) BreakerState {
	until := b.until.Load()
	switch {
	case until == 0:
		return BreakerClosed
	case now.UnixNano() < until:
		return BreakerOpen
	default:
		return BreakerHalfOpen
	}
}

// Opened returns how often it has opened.
func (b *Breaker) Opened() uint64 { return b.opened.Load() }

// Faults returns the failures in a row.
func (b *Breaker) Faults() int { return int(b.faults.Load()) }

// Closed reports whether the breaker lets everything through.
func (b *Breaker) Closed() bool { return b.until.Load() == 0 }

// Lets reports whether a request may be sent at a time in unix nanoseconds.
func (b *Breaker) Lets(now int64) bool {
	until := b.until.Load()
	return until == 0 || (now >= until && b.free(now))
}

// Try takes the place of the trial where there is one to take, and reports
// whether the request may be sent.
func (b *Breaker) Try(now int64) bool {
	if b.until.Load() == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	until := b.until.Load()
	if until == 0 {
		return true
	}
	if now < until || !b.free(now) {
		return false
	}
	b.trial.Store(now)
	return true
}

func (b *Breaker) free(now int64) bool {
	since := b.trial.Load()
	return since == 0 || now-since >= int64(trialFor)
}
