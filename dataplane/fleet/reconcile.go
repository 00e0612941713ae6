package fleet

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// desired is a worker that operators or sources name.
type desired struct {
	spec    worker.Spec
	sources []*sourceState
}

// desiredLocked merges the workers of operators and sources. The first source that gives a role
// or a bootstrap address decides it, in order of precedence and not of answers; a worker drains
// if any source drains it.
func (m *Manager) desiredLocked(now time.Time) map[string]*desired {
	all := make(map[string]*desired, len(m.members))
	for url, spec := range m.added {
		all[url] = &desired{spec: spec}
	}
	m.endBansLocked(now)
	for _, f := range m.sources {
		for _, spec := range f.specs {
			if _, banned := m.banned[spec.URL]; banned {
				continue
			}
			d := all[spec.URL]
			if d == nil {
				all[spec.URL] = &desired{spec, []*sourceState{f}}
				continue
			}
			d.sources = append(d.sources, f)
			if d.spec.Role == worker.RoleRegular {
				d.spec.Role = spec.Role
			}
			if d.spec.Bootstrap == (worker.Bootstrap{}) && d.spec.Role == spec.Role {
				d.spec.Bootstrap = spec.Bootstrap
			}
			d.spec.Drain = d.spec.Drain || spec.Drain
		}
	}
	m.applyCordonsLocked(all)
	return all
}

// endBansLocked ends the bans of workers that no source has named for leastDrain: a source may
// leave one out for a moment.
func (m *Manager) endBansLocked(now time.Time) {
	for url, since := range m.banned {
		switch {
		case !since.IsZero() && now.Sub(since) >= leastDrain:
			delete(m.banned, url)
		case m.namedLocked(url):
			m.banned[url] = time.Time{}
		case since.IsZero():
			m.banned[url] = now
		}
	}
}

// namedLocked reports whether a source names a worker.
func (m *Manager) namedLocked(url string) bool {
	return slices.ContainsFunc(m.sources, func(f *sourceState) bool { return f.names(url) })
}

// names reports whether the source names a worker.
func (f *sourceState) names(url string) bool {
	return slices.ContainsFunc(f.specs, func(s worker.Spec) bool { return s.URL == url })
}

// applyCordonsLocked leaves out the workers of sources that are cordoned and not used yet.
func (m *Manager) applyCordonsLocked(all map[string]*desired) {
	for url, mark := range m.marks {
		if _, added := m.added[url]; mark.Cordon && !added && m.members[url] == nil {
			delete(all, url)
		}
	}
}

// reconcileLocked brings the registry as close to the desired workers as it can now. It reports
// whether workers are leaving, which needs another call soon.
func (m *Manager) reconcileLocked(now time.Time) (leaving bool) {
	all := m.desiredLocked(now)
	for url, d := range all {
		m.ensureLocked(url, d)
	}
	for url, t := range m.members { // those too that left and are held
		if drain := m.drained[url] || m.marks[url].Drain; drain != t.w.Drains(worker.DrainOperator) {
			t.w.Drain(drain)
		}
	}
	m.doubtLocked(now)
	served := m.servedLocked(all)
	for url, t := range m.members {
		if all[url] == nil {
			m.leaveLocked(t, now, served)
			leaving = true
		}
	}
	return leaving
}

// ensureLocked adds a worker, or updates the one that is there.
func (m *Manager) ensureLocked(url string, d *desired) {
	t := m.members[url]
	if t == nil {
		m.addLocked(url, d)
		return
	}
	t.sources = d.sources
	if !t.left.IsZero() {
		m.log.Info("worker is back before it was removed", "worker", url)
		t.left, t.drained, t.held, t.removed = time.Time{}, time.Time{}, "", false
		t.w.DrainFor(worker.DrainLeaving, false)
	}
	if t.spec != d.spec {
		t.spec = d.spec
		if err := m.registry.Update(d.spec); err != nil {
			m.log.Error("cannot change worker", "worker", url, "error", err)
		}
	}
}

func (m *Manager) addLocked(url string, d *desired) {
	if m.removing[url] {
		return // the end of the removal wakes Run
	}
	added, err := m.registry.AddSpec(d.spec)
	switch {
	case closing(err):
	case err != nil:
		m.log.Error("cannot add worker", "worker", url, "error", err)
	default:
		m.members[url] = &member{w: added, spec: d.spec, sources: d.sources}
	}
}

// reconcileNowLocked reconciles, and has Run go on where workers are leaving.
func (m *Manager) reconcileNowLocked() {
	if m.ctx != nil && m.reconcileLocked(time.Now()) {
		m.wakeUp()
	}
}

// wakeUp has Run reconcile.
func (m *Manager) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default: // Run is about to
	}
}

// service is the work that one worker can take over from another.
type service struct {
	model string
	role  worker.Role
}

func serviceOf(w *worker.Worker) (service, bool) {
	info := w.Info()
	if info == nil {
		return service{}, false
	}
	return service{info.Model(), info.Role()}, true
}

// doubtLocked notes which sources are in doubt. Every change of a static one is meant.
func (m *Manager) doubtLocked(now time.Time) {
	for _, f := range m.sources {
		answers := func(s worker.Spec) bool { t := m.members[s.URL]; return t != nil && t.answers() }
		if !f.static() && !slices.ContainsFunc(f.specs, answers) {
			f.doubted = now
		}
	}
}

// inDoubt reports whether all sources that named the worker last are in doubt. Where that has held
// it, it holds it for leastDrain longer: after the end of all leases workers come back one by one.
func (t *member) inDoubt(now time.Time) bool {
	longer := time.Duration(0)
	if t.held == heldByDoubt {
		longer = leastDrain
	}
	return len(t.sources) > 0 && !slices.ContainsFunc(t.sources, func(f *sourceState) bool {
		return f.retired || f.static() || now.Sub(f.doubted) > longer
	})
}

// servedLocked returns the services of ready workers that stay.
func (m *Manager) servedLocked(all map[string]*desired) map[service]bool {
	served := map[service]bool{}
	for url, t := range m.members {
		if all[url] == nil || t.w.State() != worker.Ready {
			continue
		}
		if s, known := serviceOf(t.w); known {
			served[s] = true
		}
	}
	return served
}

// leaveLocked takes a worker that left its sources one step further: hold, drain, remove.
func (m *Manager) leaveLocked(t *member, now time.Time, served map[service]bool) {
	if t.left.IsZero() {
		t.left = now
		m.log.Info("worker has left", "worker", t.w.URL, "in_flight", t.w.InFlight())
	}
	held := m.heldLocked(t, now, served)
	if held != "" && held != t.held {
		m.log.Warn("worker has left, and stays in use while it answers", "worker", t.w.URL, "because", held)
	}
	t.held = held
	t.w.DrainFor(worker.DrainLeaving, held == "")
	if held != "" {
		t.drained = time.Time{}
		return
	}
	if t.drained.IsZero() {
		t.drained = now
		m.registry.FindDoubles() // another name of its process may stay
	}
	switch inFlight := t.w.InFlight(); {
	case inFlight == 0 && now.Sub(t.left) < leastDrain && t.mayReturn():
	case inFlight == 0 && now.Sub(t.drained) < m.cfg.Grace && !t.removed && t.inDoubt(now):
		// It may restart.
	case inFlight == 0:
		m.log.Info("worker is removed", "worker", t.w.URL)
		m.removeLocked(t)
	case now.Sub(t.drained) >= m.cfg.Drain:
		m.log.Warn("worker is removed before its requests have ended; they go on", "worker", t.w.URL, "in_flight", inFlight)
		m.removeLocked(t)
	}
}

// answers reports whether the worker answers its probes, late or not.
func (t *member) answers() bool {
	return t.w.Probed() == worker.Ready || t.w.Probed() == worker.Slow
}

// mayReturn reports whether a source may name a worker that left again soon: operators and
// configurations mean a removal, and a process that is gone has nothing to keep.
func (t *member) mayReturn() bool {
	return !t.removed && t.answers() && slices.ContainsFunc(t.sources, func(f *sourceState) bool { return !f.retired && !f.static() })
}

// heldByDoubt is why a worker stays in use while its sources are in doubt.
const heldByDoubt = "its source names no worker that answers"

// heldLocked returns why a worker that left stays in use; "": it does not.
func (m *Manager) heldLocked(t *member, now time.Time, served map[service]bool) string {
	if t.removed || !t.answers() {
		return ""
	}
	if slices.ContainsFunc(t.sources, func(f *sourceState) bool { return f.retired }) &&
		slices.ContainsFunc(m.sources, func(f *sourceState) bool { return !f.answered && f.failed == nil }) {
		return "a new source has not answered yet"
	}
	if t.inDoubt(now) {
		return heldByDoubt
	}
	if now.Sub(t.left) >= m.cfg.Grace {
		return ""
	}
	if s, known := serviceOf(t.w); known && !served[s] {
		return "no other worker is ready for its model and role"
	}
	return ""
}

// removeLocked takes a worker out of the registry. A goroutine forgets its cache, which takes a
// while.
func (m *Manager) removeLocked(t *member) {
	url := t.w.URL
	delete(m.members, url)
	forget, err := m.registry.Detach(url)
	if err != nil {
		m.log.Error("cannot remove worker", "worker", url, "error", err)
		return
	}
	m.removing[url] = true
	m.running.Go(func() {
		forget()
		m.mu.Lock()
		delete(m.removing, url)
		m.mu.Unlock()
		m.wakeUp()
	})
}
