package worker

import (
	"sync/atomic"
	"time"
)

const (
	// minSuspicionWait and maxSuspicionWait bound how often unfounded suspicions take a worker out
	// of the choice: a server may close each connection after its answer.
	minSuspicionWait = 50 * time.Millisecond
	maxSuspicionWait = 2 * time.Second
	// suspicionFade is the time without a suspicion after which the next one counts at once again.
	suspicionFade = 10 * time.Second
)

// suspicion is a doubt whether the process behind a worker's URL is still the known one.
type suspicion struct {
	raised atomic.Bool
	from   atomic.Int64 // unix nanoseconds at which suspicions count again

	// Of the monitor alone.
	last time.Time     // check of the process
	wait time.Duration // between two checks
	conn uint64        // number of the probes' connection at the last check
}

// pending reports whether the process must be checked, now or later. A new connection of the probes
// is reason enough: a connection belongs to one process.
func (s *suspicion) pending(conn uint64) bool { return s.raised.Load() || s.conn != conn }

// due reports whether the process must be checked now.
func (s *suspicion) due(now time.Time, conn uint64) bool {
	return s.pending(conn) && now.UnixNano() >= s.from.Load()
}

// timer fires when a suspicion that came too early counts; nil where there is none.
func (s *suspicion) timer(now time.Time, conn uint64) <-chan time.Time {
	wait := time.Duration(s.from.Load() - now.UnixNano())
	if wait <= 0 || !s.pending(conn) {
		return nil
	}
	return time.After(wait)
}

// checking notes that the process is being checked. Suspicions from now on count again.
func (s *suspicion) checking(now time.Time, conn uint64) {
	s.raised.Store(false)
	if now.Sub(s.last) >= suspicionFade {
		s.wait = 0
	}
	s.last = now
	s.from.Store(now.Add(s.wait).UnixNano())
	s.wait = min(max(2*s.wait, minSuspicionWait), maxSuspicionWait)
	s.conn = conn
}

// unresolved notes that the check got no answer.
func (s *suspicion) unresolved() { s.raised.Store(true) }

// Doubt notes that the process behind the URL may have been replaced: the connection of its
// probes or of its events has ended, or its answers look like another process's. Requests go to
// other workers until the monitor knows, which takes two short questions.
func (w *Worker) Doubt() {
	if time.Now().UnixNano() >= w.suspicion.from.Load() {
		w.Suspect()
		return
	}
	w.Recheck()
}

// Recheck is Doubt for signs that a client can cause: the worker stays in the choice meanwhile.
func (w *Worker) Recheck() {
	if !w.suspicion.raised.Swap(true) {
		w.Probe()
	}
}
