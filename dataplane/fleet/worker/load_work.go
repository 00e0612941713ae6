package worker

import (
	"sync/atomic"
	"time"
)

// work shows that a rank makes progress, for those waiting for it. They look now and then,
// and pieces of answers say that they have come since. A piece reads one number that changes with
// each look, and no clock.
type work struct {
	looks     atomic.Uint64
	shown     atomic.Uint64 // number of the last look that a piece of an answer came behind
	prefilled atomic.Int64  // see BegunPair
}

// Look is a moment from which progress counts.
type Look struct {
	number uint64
	at     time.Time
}

// Look begins a time for WorkedSince and Queues.
func (l *Load) Look(now time.Time) Look { return Look{l.work.looks.Add(1), now} }

// WorkedSince reports whether a piece of an answer has come since a look.
func (l *Load) WorkedSince(look Look) bool { return l.work.shown.Load() >= look.number }

// Worked notes that a piece of a good answer has come.
func (l *Load) Worked() {
	n := l.work.looks.Load()
	for was := l.work.shown.Load(); was < n && !l.work.shown.CompareAndSwap(was, n); {
		was = l.work.shown.Load()
	}
}

// BegunPair notes that the answer to a prompt has begun which a prefill worker had computed at a
// time in unix nanoseconds.
func (l *Load) BegunPair(prefilled int64) {
	for was := l.work.prefilled.Load(); was < prefilled && !l.work.prefilled.CompareAndSwap(was, prefilled); {
		was = l.work.prefilled.Load()
	}
}

// Queues reports whether a decode rank goes on, by its answers or reports since a look, and may let
// a request wait in its queue whose prompt was computed at a time: it has no place in its batch, as
// far as it tells how many it has, and no request has begun that came later by more than slack.
// SGLang's queue behind the transfer is first come, first served.
func (l *Load) Queues(now time.Time, look Look, prefilled time.Time, slack time.Duration) bool {
	if l.work.prefilled.Load() > prefilled.Add(slack).UnixNano() {
		return false
	}
	v := l.View(now)
	if v.Most == 0 {
		return l.WorkedSince(look)
	}
	reported := v.Age >= 0 && v.Age < now.Sub(look.at).Seconds()
	return v.InFlight-v.Waiting >= v.Most && (reported || l.WorkedSince(look))
}

// Reporting reports whether the rank reports its load: its scheduler runs.
func (l *Load) Reporting(now time.Time) bool {
	v := l.View(now)
	return v.Age >= 0 && !v.Stale()
}
