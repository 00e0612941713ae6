package worker

import (
	"sync"
	"sync/atomic"
)

// Refusals decides which errors of a worker need a second opinion. A status such as 400 or 401
// is the client's fault if other workers agree, and the worker's otherwise. Asking twice about
// each mistake would double the cost of careless clients, so confirmations make the questions
// rarer. A long run without a success, which a failing worker shows and a careless client seldom
// causes, makes them frequent again.
//
// Its lock is held for some 20 ns by an answer of status 400 or more, and by the success after
// it.
type Refusals struct {
	running atomic.Bool // there is a run

	mu sync.Mutex
	by [refusalKinds]refusal // guarded by mu
}

// refusal is the history of one status.
type refusal struct {
	run  int32 // answers with it since the last good one
	skip int32 // answers with it that need no opinion
	step int32 // half of skip after the next confirmation
}

const (
	refusalKinds = 8
	// mostSkipped is how many answers go without a second opinion at most: 1.6 % of clients'
	// mistakes are sent twice.
	mostSkipped = 64
	// longRun is how many errors in a row are suspicious.
	longRun = 4
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
