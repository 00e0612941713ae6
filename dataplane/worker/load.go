package worker

import "sync/atomic"

// Load is the work that this router has sent to one rank and that has not
// ended. It is counted from dispatch, not from the worker's next report: a
// burst that arrives between two reports would otherwise see no load at all
// and pile up on one worker.
type Load struct {
	inFlight atomic.Int64 // requests dispatched and not ended
	waiting  atomic.Int64 // of those, the ones without a first byte
	pending  atomic.Int64 // prompt tokens dispatched, expected uncached and not prefilled
}

// InFlight returns the requests dispatched and not ended.
func (l *Load) InFlight() int64 { return l.inFlight.Load() }

// Waiting returns the requests dispatched whose answer has not begun.
func (l *Load) Waiting() int64 { return l.waiting.Load() }

// Pending returns the prompt tokens that the rank has yet to prefill.
func (l *Load) Pending() int64 { return l.pending.Load() }

// Lease is one request's share of a rank's load. Each step takes effect once,
// whatever the order and number of calls, so that no exit path can leak load.
type Lease struct {
	load   *Load
	tokens int64
	begun  bool
	ended  bool
}

// Begin counts a request with uncached prompt tokens to prefill. The lease
// belongs to the goroutine that serves the request.
func (l *Load) Begin(uncached int) Lease {
	tokens := int64(max(uncached, 0))
	l.inFlight.Add(1)
	l.waiting.Add(1)
	l.pending.Add(tokens)
	return Lease{load: l, tokens: tokens}
}

// FirstByte marks the prompt as prefilled.
func (l *Lease) FirstByte() {
	if l.load == nil || l.begun {
		return
	}
	l.begun = true
	l.load.waiting.Add(-1)
	l.load.pending.Add(-l.tokens)
}

// End gives the request's whole load back.
func (l *Lease) End() {
	if l.load == nil || l.ended {
		return
	}
	l.FirstByte()
	l.ended = true
	l.load.inFlight.Add(-1)
}
