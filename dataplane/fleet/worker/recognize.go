package worker

import (
	"context"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// minSuspicionWait and maxSuspicionWait bound how often unfounded suspicions take a worker
	// out of the choice: a server may close each connection after its answer.
	minSuspicionWait = 50 * time.Millisecond
	maxSuspicionWait = 2 * time.Second
	// suspicionFade is the time without a suspicion after which the next one counts at once
	// again.
	suspicionFade = 10 * time.Second
)

// suspected reports whether the process must be checked, now or later. A new connection of the
// probes is reason enough: a connection belongs to one process.
func (m *monitor) suspected() bool {
	return m.w.probe.suspected.Load() || m.conn != m.probe.conns.watch.number()
}

// suspicionTimer fires when a suspicion that came too early counts; nil where there is none.
func (m *monitor) suspicionTimer(now time.Time) <-chan time.Time {
	wait := m.w.probe.suspectAfter(now)
	if !m.known || wait <= 0 || !m.suspected() {
		return nil
	}
	return time.After(wait)
}

// checking notes that the process is being checked. Suspicions from now on count again.
func (m *monitor) checking() {
	now := time.Now()
	m.w.probe.suspected.Store(false)
	if now.Sub(m.checked) >= suspicionFade {
		m.wait = 0
	}
	m.checked = now
	m.w.probe.suspectFrom.Store(now.Add(m.wait).UnixNano())
	m.wait = min(max(2*m.wait, minSuspicionWait), maxSuspicionWait)
	m.conn = m.probe.conns.watch.number()
}

// recognize finds out whether the process is the known one. Another process begins with an empty
// cache and without the names of the one before.
//
// The model's names come first, because they take no scheduler. A process with known names may
// take its time to describe itself: the worst effect is a prompt that is not cached as expected.
func (m *monitor) recognize(ctx context.Context) error {
	old := m.w.Info()
	m.checking()
	said, err := m.probe.models(m.probe.timeout)
	if err != nil {
		m.w.probe.suspected.Store(true)
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
		m.w.probe.suspected.Store(true)
		if familiar && classify(err) == Slow {
			return nil // its scheduler is busy; the next probes ask again
		}
		return err
	case info.sameProcess(old) && (info.Process != 0 || !m.moved):
		m.update(old, info)
		return nil
	}
	m.cfg.Log.Warn("worker is a new process; all knowledge of the one before is dropped", "worker", m.w.URL,
		"model", info.Model(), "before", old.Model())
	// Observers take a while to forget, and the process must get no request for the old model
	// meanwhile.
	m.w.setState(Probing)
	m.down()
	m.adopt(ctx, info)
	return nil
}

// refusedEvery and unknownEvery are the time between two questions to a worker that did not
// describe itself.
const (
	refusedEvery = 2 * time.Second
	unknownEvery = 10 * time.Second
)

// retryDescription describes a worker again that refused it for want of its API key, which an
// operator may have given since, or that is an unknown server: a gateway before a worker that
// starts answers 404, or with a page of its own.
func (m *monitor) retryDescription(ctx context.Context, now time.Time) {
	info, every := m.w.Info(), unknownEvery
	if info.Refused != 0 {
		every = refusedEvery
	} else if !strings.HasPrefix(info.Engine, unknownServer) {
		return
	}
	if now.Sub(m.refused) < every {
		return
	}
	m.refused = now
	a, err := m.probe.describe("/server_info", now.Add(m.probe.timeout))
	if err != nil || refusedKey(a.status) || info.Refused == 0 && (a.status != fasthttp.StatusOK || !sglang(a.body)) {
		return
	}
	info, err = m.probe.discover(discoverTimeout)
	if err != nil || info.Refused != 0 || ctx.Err() != nil {
		return
	}
	m.cfg.Log.Info("worker describes itself now", "worker", m.w.URL)
	m.w.setState(Probing)
	m.down()
	m.adopt(ctx, info)
}

// update adds the new names of a process: after a change of weights it has another one.
func (m *monitor) update(old, info *Info) {
	m.moved = false
	fresh := *old
	fresh.addNames(info.names())
	if !old.knows(fresh.names()) {
		m.cfg.Log.Info("worker has a new name; its earlier names stay valid", "worker", m.w.URL, "names", fresh.Models)
	}
	m.w.info.Store(&fresh)
}

// learnVocabulary asks for the vocabulary again that the process did not tell at its discovery.
func (m *monitor) learnVocabulary(now time.Time) {
	info := m.w.Info()
	if info == nil || info.Vocabulary > 0 || info.ModelPath == "" || m.asks >= vocabularyAsks || now.Sub(m.asked) < vocabularyAgain {
		return
	}
	m.asks, m.asked = m.asks+1, now
	n := m.probe.vocabulary(info)
	if n == 0 {
		return
	}
	fresh := *info
	fresh.Vocabulary = n
	m.w.info.Store(&fresh)
	m.r.publish()
}
