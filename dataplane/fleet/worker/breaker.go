package worker

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// breakAfter faults in a row, without a good answer between them, open a breaker: two may be
	// one death that two requests saw.
	breakAfter = 3
	// breakShare faults among the last breakWindow answers open it too: a worker that fails a
	// third of its requests seldom fails three in a row. One that fails a twentieth keeps its
	// share.
	breakShare, breakWindow = 5, 20
	// breakMemory is how long a fault counts: on a quiet worker the window would reach back for
	// hours.
	breakMemory = time.Minute
	// onProbation is how many faults a breaker that closes after a trial still remembers: one
	// good answer is little proof.
	onProbation = 3
	// openFirst and openMost bound how long it stays open. Probes find a restarted engine; the
	// breaker finds a worker that answers probes and fails requests.
	openFirst = time.Second
	openMost  = 30 * time.Second
	// openBusy is the longest time for a worker that reports to be full: it may have room again
	// at any moment.
	openBusy = 2 * time.Second
	// trialFor frees the place of a trial that never reported back, for instance because its
	// client left.
	trialFor = 10 * time.Second
)

// Breaker keeps requests away from a worker that answers its probes and fails requests. Only
// failures of the worker are faults; failures of the client must not be reported.
//
// It opens after three faults in a row, or five among the last twenty answers, for 1 s doubling
// to 30 s. Then it is half open: one request is tried, and its outcome opens or closes it. Only
// the success of a request sent since it opened closes it. The time doubles until 64 answers in
// a row succeeded. The zero value is closed.
type Breaker struct {
	faults atomic.Int32 // in a row
	// The last 64 outcomes, the latest in the lowest bit: 1 is a fault; written under mu.
	recent atomic.Uint64
	until  atomic.Int64 // unix nanoseconds when it is half open; 0: closed
	trial  atomic.Int64 // unix nanoseconds of the trial's begin; 0: there is none
	opened atomic.Uint64

	mu    sync.Mutex
	next  time.Duration // how long it opens next; guarded by mu
	since int64         // unix nanoseconds when it opened; guarded by mu
	last  int64         // unix nanoseconds of the last fault; guarded by mu
}

// BreakerState is the state of a breaker.
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

func (b *Breaker) fault(now int64, most time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	recent := b.recent.Load()
	if now-b.last > int64(breakMemory) {
		recent = 0
		b.faults.Store(0)
	}
	recent = recent<<1 | 1
	b.last = now
	b.recent.Store(recent)
	row, until := b.faults.Add(1), b.until.Load()
	switch {
	case isOpen(until, now): // requests sent before it opened
		return
	case until == 0 && row < breakAfter && bits.OnesCount64(recent&(1<<breakWindow-1)) < breakShare:
		return
	}
	if b.next == 0 {
		b.next = openFirst
	}
	b.until.Store(now + int64(min(b.next, most)))
	b.since = now
	b.trial.Store(0)
	b.opened.Add(1)
	b.next = min(2*b.next, openMost)
}

// retryLater ends a trial that has shown nothing: the next one comes after the shortest time.
func (b *Breaker) retryLater(now int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.until.Load(); until == 0 || isOpen(until, now) {
		return
	}
	b.until.Store(now + int64(openFirst))
	b.trial.Store(0)
}

func (b *Breaker) fine(sent int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.Store(0)
	recent := b.recent.Load() << 1
	if b.until.Load() != 0 && sent >= b.since {
		b.until.Store(0)
		b.trial.Store(0)
		recent = 1<<onProbation - 1
	}
	b.recent.Store(recent)
	if recent == 0 && b.until.Load() == 0 {
		b.next = 0
	}
}

// Reset closes the breaker and forgets all faults.
func (b *Breaker) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.Store(0)
	b.recent.Store(0)
	b.until.Store(0)
	b.trial.Store(0)
	b.next = 0
}

// isOpen reports whether a breaker that is open until then is open at a time. It never opens for
// longer than openMost: beyond that the clock was set back.
func isOpen(until, now int64) bool { return now < until && until-now <= int64(openMost) }

// State returns the breaker's state at a time.
func (b *Breaker) State(now time.Time) BreakerState {
	switch until := b.until.Load(); {
	case until == 0:
		return BreakerClosed
	case isOpen(until, now.UnixNano()):
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// Opened returns how often it has opened.
func (b *Breaker) Opened() uint64 { return b.opened.Load() }

// Faults returns the failures in a row.
func (b *Breaker) Faults() int { return int(b.faults.Load()) }

// Clean reports that the last 64 answers were good.
func (b *Breaker) Clean() bool { return b.recent.Load() == 0 && b.until.Load() == 0 }

// Closed reports whether the breaker lets everything through.
func (b *Breaker) Closed() bool { return b.until.Load() == 0 }

// Lets reports whether a request may be sent at a time in unix nanoseconds.
func (b *Breaker) Lets(now int64) bool {
	until := b.until.Load()
	return until == 0 || !isOpen(until, now) && b.free(now)
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
	if isOpen(until, now) || !b.free(now) {
		return false
	}
	b.since = min(b.since, now) // else a clock that was set back
	b.trial.Store(now)
	return true
}

// GiveBack frees the place of the trial that Try took at that time: its request went elsewhere.
func (b *Breaker) GiveBack(now int64) { b.trial.CompareAndSwap(now, 0) }

func (b *Breaker) free(now int64) bool {
	since := b.trial.Load()
	return since == 0 || max(now-since, since-now) >= int64(trialFor) // or the clock went back
}

// refusals decides which errors of a worker need a second opinion. A status such as 400 or 401
// is the client's fault if other workers agree, and the worker's otherwise. Asking twice about
// each mistake would double the cost of careless clients, so confirmations make the questions
// rarer. A long run without a success, which a failing worker shows and a careless client seldom
// causes, makes them frequent again.
type refusals struct {
	running atomic.Bool // there is a run
	mu      sync.Mutex
	by      [len(refusalStatuses) + 2]refusal // guarded by mu
}

// refusal is the history of one status.
type refusal struct {
	run  int32 // answers with it since the last good one
	skip int32 // answers with it that need no opinion
	step int32 // half of skip after the next confirmation
}

const (
	// mostSkipped is how many answers go without a second opinion at most: 1.6 % of clients'
	// mistakes are sent twice.
	mostSkipped = 64
	// longRun is how many errors in a row are suspicious.
	longRun = 4
)

// refusalStatuses have a history each. So have all from 500 on together, and all others.
var refusalStatuses = [...]int{400, 401, 403, 404, 413, 422}

// lock returns the history of a status; the caller unlocks mu.
func (f *refusals) lock(status int) *refusal {
	at := slices.Index(refusalStatuses[:], status)
	if at < 0 {
		at = len(refusalStatuses)
	}
	if status >= 500 {
		at++
	}
	f.mu.Lock()
	return &f.by[at]
}

// end ends all runs.
func (f *refusals) end() {
	if !f.running.Load() { // as nearly always
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running.Store(false)
	for i := range f.by {
		f.by[i].run = 0
	}
}

// Fault counts a failure that is the worker's own.
func (w *Worker) Fault(now time.Time) { w.Breaker.fault(now.UnixNano(), openMost) }

// Unexplained notes a failure that may be the request's own. It counts against a worker that is
// tried again, which had faults of its own before.
func (w *Worker) Unexplained(now time.Time) { w.Breaker.retryLater(now.UnixNano()) }

// Busy counts a refusal by a full worker of a request that another worker took.
func (w *Worker) Busy(now time.Time) { w.Breaker.fault(now.UnixNano(), openBusy) }

// Succeeded notes that the worker has answered a request, sent at that time, well and to the
// end.
func (w *Worker) Succeeded(sent time.Time) {
	w.refusals.end()
	if !w.Breaker.Clean() { // else closed, as nearly always
		w.Breaker.fine(sent.UnixNano())
	}
}

// Inconclusive notes that a request has ended without showing whether the worker is well.
func (w *Worker) Inconclusive() {
	if !w.Breaker.Closed() {
		w.Breaker.trial.Store(0)
	}
}

// NeedsSecondOpinion notes an answer with an error's status and reports whether another worker
// should be asked. Statuses from 500 on always are.
func (w *Worker) NeedsSecondOpinion(status int) bool {
	r := w.refusals.lock(status)
	defer w.refusals.mu.Unlock()
	w.refusals.running.Store(true)
	r.run = min(r.run+1, 1<<20)
	if r.skip > 0 {
		r.skip--
		return status >= 500 || !w.Breaker.Clean() || r.run >= longRun && r.run&(r.run-1) == 0
	}
	return true
}

// Confirmed notes that another worker has answered the same request with the same status.
func (w *Worker) Confirmed(status int) {
	r := w.refusals.lock(status)
	defer w.refusals.mu.Unlock()
	if r.skip > 0 { // by a request at the same time
		return
	}
	r.step = min(2*r.step+1, mostSkipped)
	r.skip = r.step
}

// Contradicted notes that another worker has answered well.
func (w *Worker) Contradicted(status int) {
	r := w.refusals.lock(status)
	defer w.refusals.mu.Unlock()
	r.step, r.skip = 0, 0
}

// Credible reports whether the worker's word counts against a request: it has had no fault
// lately, and good answers between its errors.
func (w *Worker) Credible(status int) bool {
	if !w.Breaker.Clean() {
		return false
	}
	r := w.refusals.lock(status)
	defer w.refusals.mu.Unlock()
	return r.run < longRun
}
