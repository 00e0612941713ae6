package worker

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// doubtsFrom and doubtsMost bound how often doubts take a worker out of the choice that turn out to be unfounded: a
	// server may close each connection after its answer.
	doubtsFrom = 50 * time.Millisecond
	doubtsMost = 2 * time.Second
	// doubtsFade is without a doubt until the first one is heeded at once again.
	doubtsFade = 10 * time.Second
)

// suspicion is whether the process behind a worker's URL may be another one than the one that is known.
type suspicion struct {
	raised atomic.Bool
	heed   atomic.Int64 // unix nanoseconds from which on doubts are heeded

	// The monitor's own.
	last time.Time     // that the process was asked for
	wait time.Duration // between two questions
}

// Doubt says that the process behind the URL may have been replaced: the connection of its probes or of its events has ended, or
// it answers as another one would. Requests go elsewhere, where others serve them, until the monitor knows; that takes
// two short questions.
func (w *Worker) Doubt() {
	if time.Now().UnixNano() >= w.suspicion.heed.Load() {
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

// doubtful reports whether the known process must be recognized now. A new connection of the probes is reason enough: a
// connection belongs to one process for as long as it lives.
func (m *monitor) doubtful(now time.Time) bool {
	if !m.known || (!m.w.suspicion.raised.Load() && m.line == m.probe.line.number()) {
		return false
	}
	return now.UnixNano() >= m.w.suspicion.heed.Load()
}

// doubtDue returns when a doubt that came too early is to be heeded; nil where there is none.
func (m *monitor) doubtDue(now time.Time) <-chan time.Time {
	wait := time.Duration(m.w.suspicion.heed.Load() - now.UnixNano())
	if wait <= 0 || !m.known || (!m.w.suspicion.raised.Load() && m.line == m.probe.line.number()) {
		return nil
	}
	return time.After(wait)
}

// doubtsEnd notes that the process is being asked for. Doubts that come from now on count again.
func (m *monitor) doubtsEnd() {
	d, now := &m.w.suspicion, time.Now()
	d.raised.Store(false)
	if now.Sub(d.last) >= doubtsFade {
		d.wait = 0
	}
	d.last = now
	d.heed.Store(now.Add(d.wait).UnixNano())
	d.wait = min(max(2*d.wait, doubtsFrom), doubtsMost)
	m.line = m.probe.line.number()
}

// doubtsLast notes that the question was not answered.
func (m *monitor) doubtsLast() { m.w.suspicion.raised.Store(true) }

// recognize finds out whether the process is the known one. Another one begins with nothing: neither the cache nor a name of
// the one before is its own.
//
// The model's names come first, because they take no scheduler. Where they are known, the process may take its time to
// describe itself: the worst is a prompt that is not cached as expected.
func (m *monitor) recognize(ctx context.Context) error {
	old := m.w.Info()
	m.doubtsEnd()
	said, err := m.probe.models(m.probe.timeout)
	if err != nil {
		m.doubtsLast()
		return err
	}
	patience, familiar := discoverTimeout, !said.empty() && old.knows(said)
	if familiar {
		patience = m.probe.timeout
	}
	info, err := m.probe.discover(patience)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		m.doubtsLast()
		if familiar && classify(err) == Slow {
			return nil // its scheduler is busy; the next probes ask again
		}
		return err
	case info.sameProcess(old):
		m.update(old, info)
		return nil
	}
	m.cfg.Log.Warn("worker is another process; what was known of the one before is forgotten", "worker", m.w.URL,
		"model", info.Model(), "before", old.Model())
	m.w.setState(Probing) // observers take a while to forget, and nobody may ask it for the old model meanwhile
	m.down()
	m.adopt(ctx, info)
	return nil
}

// update takes over what a process says now that it did not say before: after a change of weights, another name.
func (m *monitor) update(old, info *Info) {
	fresh := *old
	fresh.answers(info.said())
	if !old.knows(fresh.said()) {
		m.cfg.Log.Info("worker answers to another name; it keeps those that it had", "worker", m.w.URL, "names", fresh.Models)
	}
	m.w.info.Store(&fresh)
}
