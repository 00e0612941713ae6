package worker

import "time"

// Outcomes judges a worker by how requests to it ended.
type Outcomes struct {
	// Breaker keeps requests away from a worker that fails them, whether its probes succeed or
	// not.
	Breaker Breaker
	// Refusals decides which errors of the worker need a second opinion.
	Refusals Refusals
}

// Fault counts a failure that is the worker's own.
func (o *Outcomes) Fault(now time.Time) { o.Breaker.fault(now.UnixNano(), openMost) }

// Unexplained notes a failure that may be the request's own. It counts against a worker that is
// tried again, which had faults of its own before.
func (o *Outcomes) Unexplained(now time.Time) { o.Breaker.retryLater(now.UnixNano()) }

// Busy counts a refusal by a full worker of a request that another worker took.
func (o *Outcomes) Busy(now time.Time) { o.Breaker.fault(now.UnixNano(), openBusy) }

// Succeeded notes that the worker has answered a request, sent at that time, well and to the
// end.
func (o *Outcomes) Succeeded(sent time.Time) {
	o.Refusals.end()
	b := &o.Breaker
	if b.recent.Load() != 0 || b.until.Load() != 0 { // else closed, as nearly always
		b.fine(sent.UnixNano())
	}
}

// Inconclusive notes that a request has ended without showing whether the worker is well.
func (o *Outcomes) Inconclusive() {
	if o.Breaker.until.Load() != 0 {
		o.Breaker.trial.Store(0)
	}
}

// NeedsSecondOpinion notes an answer with an error's status and reports whether another worker
// should be asked. Statuses from 500 on always are.
func (o *Outcomes) NeedsSecondOpinion(status int) bool {
	f := &o.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running.Store(true)
	r := &f.by[refusalKind(status)]
	r.run = min(r.run+1, 1<<20)
	if r.skip > 0 {
		r.skip--
		return status >= 500 || !o.Breaker.Clean() || r.run >= longRun && r.run&(r.run-1) == 0
	}
	return true
}

// Confirmed notes that another worker has answered the same request with the same status.
func (o *Outcomes) Confirmed(status int) {
	f := &o.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.by[refusalKind(status)]
	if r.skip > 0 { // by a request at the same time
		return
	}
	r.step = min(2*r.step+1, mostSkipped)
	r.skip = r.step
}

// Contradicted notes that another worker has answered well.
func (o *Outcomes) Contradicted(status int) {
	f := &o.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.by[refusalKind(status)]
	r.step, r.skip = 0, 0
}

// Credible reports whether the worker's word counts against a request: it has had no fault
// lately, and good answers between its errors.
func (o *Outcomes) Credible(status int) bool {
	if !o.Breaker.Clean() {
		return false
	}
	f := &o.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[refusalKind(status)].run < longRun
}
