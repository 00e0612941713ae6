package worker

import (
	"sync"
	"sync/atomic"
)

// Refusals decides which errors of a worker are worth a second opinion. A status such as 400 or 401
// is the client's fault where other workers say the same, and else the worker's. Asking for each
// client's mistake twice would double the cost of clients that make many, so what others have
// confirmed makes the questions rarer, and a long run without a good answer, which a worker that
// fails shows and a careless client seldom causes, makes them again.
//
// Its lock is held for some 20 ns by an answer of status 400 or more, and by a good one behind it.
type Refusals struct {
	running atomic.Bool // there is a run

	mu sync.Mutex
	by [refusalKinds]refusal // guarded by mu
}

// refusal is what is known of one status.
type refusal struct {
	run  int32 // answers with it since the last good one
	skip int32 // answers with it that need no opinion
	step int32 // what skip begins with after the next confirmation, halved
}

const (
	refusalKinds = 8
	// mostSkipped is how many answers go without a second opinion at most: 1.6 % of clients'
	// mistakes are sent twice.
	mostSkipped = 64
	// longRun is how many errors in a row are suspicious.
	longRun = 4
	// hopeless is how many failures in a row are the worker's even if nobody else does better.
	hopeless = 8
)

func refusalKind(status int) int {
	switch status {
	case 400:
		return 0
	case 401:
		return 1
	case 403:
		return 2
	case 404:
		return 3
	case 413:
		return 4
	case 422:
		return 5
	}
	if status >= 500 {
		return 6
	}
	return 7
}

// Doubtful notes an answer with an error's status and reports whether another worker should be
// asked. Statuses from 500 on always are.
func (w *Worker) Doubtful(status int) bool {
	f := &w.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running.Store(true)
	r := &f.by[refusalKind(status)]
	r.run = min(r.run+1, 1<<20)
	if r.skip > 0 {
		r.skip--
		return status >= 500 || !w.Breaker.Clean() || r.run >= longRun && r.run&(r.run-1) == 0
	}
	return true
}

// Confirmed notes that another worker has answered the same request with the same status.
func (w *Worker) Confirmed(status int) {
	f := &w.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.by[refusalKind(status)]
	if r.skip > 0 { // by one that was asked at the same time
		return
	}
	r.step = min(2*r.step+1, mostSkipped)
	r.skip = r.step
}

// Contradicted notes that another worker has answered well.
func (w *Worker) Contradicted(status int) {
	f := &w.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.by[refusalKind(status)]
	r.step, r.skip = 0, 0
}

// Credible reports whether the worker's word counts against a request: it has had no fault lately,
// and good answers between its errors.
func (w *Worker) Credible(status int) bool {
	if !w.Breaker.Clean() {
		return false
	}
	f := &w.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[refusalKind(status)].run < longRun
}

// Hopeless reports whether the worker has only failed for a while.
func (w *Worker) Hopeless(status int) bool {
	f := &w.Refusals
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[refusalKind(status)].run >= hopeless
}

// end ends all runs.
func (f *Refusals) end() {
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
