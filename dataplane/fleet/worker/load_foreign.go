package worker

import (
	"sync/atomic"
	"time"
)

// Share is what one router has in flight at one rank. Routers tell it each other; it is a state and not a change, so that one that is
// lost is made good by the next.
type Share struct {
	InFlight int64 // requests dispatched and not ended
	Waiting  int64 // of those, the ones without a first byte
	Pending  int64 // prompt tokens that those are expected to compute
	Used     int64 // tokens of the KV pool that all of InFlight are expected to add
	Held     int64 // the most KV tokens that all of InFlight can hold
	Sent     int64 // tokens that ever were in Pending: what was sent and has begun between two shares was still sent
}

// Idle reports whether nothing is in flight.
func (s Share) Idle() bool {
	return s.InFlight == 0 && s.Waiting == 0 && s.Pending == 0 && s.Used == 0 && s.Held == 0
}

// Plus returns the sum of two.
func (s Share) Plus(o Share) Share {
	return Share{
		InFlight: s.InFlight + o.InFlight, Waiting: s.Waiting + o.Waiting, Pending: s.Pending + o.Pending, Used: s.Used + o.Used,
		Held: s.Held + o.Held, Sent: s.Sent + o.Sent,
	}
}

// foreign is the sum of other routers' shares. It is written under Load.mu, between shown.begin and end.
type foreign struct{ inFlight, waiting, pending, used, held, sent atomic.Int64 }

// Share returns what this router has in flight there.
func (l *Load) Share() (s Share) {
	for range seenTries {
		before := l.shown.version.Load()
		s = Share{
			InFlight: l.inFlight.Load(), Waiting: l.waiting.Load(), Pending: l.pending.Load(),
			Used: l.uncached.Load() + l.reserved.Load() + l.coming.Load(), Held: l.held.Load(), Sent: l.sent.Load(),
		}
		if before&1 == 0 && before == l.shown.version.Load() {
			break
		}
	}
	return s
}

// Foreign replaces what another router had in flight there, as far as was known, by what it has now. What it sent and began counts as if
// this router had: toward the backlog, and on top of the rank's next reports, which know of it by themselves from then on.
func (l *Load) Foreign(now time.Time, was, is Share) {
	if was == is {
		return
	}
	at := seconds(now)
	sent := max(is.Sent-was.Sent, 0)
	begun := sent - (is.Pending - was.Pending)
	if begun < 0 { // a share was lost
		sent, begun = sent-begun, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shown.begin()
	l.foreign.inFlight.Add(is.InFlight - was.InFlight)
	l.foreign.waiting.Add(is.Waiting - was.Waiting)
	l.foreign.pending.Add(is.Pending - was.Pending)
	l.foreign.used.Add(is.Used - was.Used)
	l.foreign.held.Add(is.Held - was.Held)
	l.foreign.sent.Add(sent)
	if sent > 0 {
		l.backlog.Sent(at, float64(sent))
	}
	if begun > 0 {
		l.backlog.Begun(at, float64(begun))
	}
	l.shown.store(&l.backlog)
	l.shown.end()
	l.notePeaks()
}

// ForeignInFlight returns the requests that other routers tell of.
func (l *Load) ForeignInFlight() int64 { return l.foreign.inFlight.Load() }
