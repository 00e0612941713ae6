package router

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// wish is a worker that somebody names.
type wish struct {
	spec  worker.Spec
	feeds []*feed
}

// wishesLocked merges what operators and sources name. Of a worker that several name, the first to say a role or where to
// meet it counts, in the order of the sources, not of their answers; it drains if any of them says so.
func (k *keeper) wishesLocked() map[string]*wish {
	all := make(map[string]*wish, len(k.kept))
	for url, spec := range k.own {
		all[url] = &wish{spec: spec}
	}
	refused := map[string]bool{}
	for _, f := range k.feeds {
		for _, spec := range f.specs {
			if k.refused[spec.URL] {
				refused[spec.URL] = true
				continue
			}
			w := all[spec.URL]
			if w == nil {
				all[spec.URL] = &wish{spec, []*feed{f}}
				continue
			}
			w.feeds = append(w.feeds, f)
			if w.spec.Role == worker.RoleAggregated {
				w.spec.Role = spec.Role
			}
			if w.spec.Bootstrap == (worker.Bootstrap{}) && w.spec.Role == spec.Role {
				w.spec.Bootstrap = spec.Bootstrap
			}
			w.spec.Drain = w.spec.Drain || spec.Drain
		}
	}
	k.refused = refused // what nobody names is forgotten
	k.heedMarksLocked(all)
	return all
}

// reconcileLocked makes the registry follow the wishes as far as it can now, and reports whether it must be called again soon.
func (k *keeper) reconcileLocked(now time.Time) (busy bool) {
	wishes := k.wishesLocked()
	for url, w := range wishes {
		k.wantLocked(url, w)
	}
	served := k.servedLocked(wishes)
	for url, t := range k.kept {
		if wishes[url] == nil {
			k.leaveLocked(t, now, served)
			busy = true
		}
	}
	return busy
}

// wantLocked adds a worker, or takes over what is new about it.
func (k *keeper) wantLocked(url string, w *wish) {
	t := k.kept[url]
	if t == nil {
		k.addLocked(url, w)
		return
	}
	t.feeds = w.feeds
	if !t.left.IsZero() {
		k.log.Info("worker is back before it was removed", "worker", url)
		t.left, t.drained, t.held, t.now = time.Time{}, time.Time{}, "", false
		t.w.DrainFor(worker.DrainLeaving, false)
	}
	if t.spec != w.spec {
		t.spec = w.spec
		if err := k.registry.Update(w.spec); err != nil {
			k.log.Error("cannot change worker", "worker", url, "error", err)
		}
	}
}

func (k *keeper) addLocked(url string, w *wish) {
	if k.removing[url] {
		return // its end kicks
	}
	added, err := k.registry.AddSpec(w.spec)
	switch {
	case closing(err):
	case err != nil:
		k.log.Error("cannot add worker", "worker", url, "error", err)
	default:
		k.kept[url] = &tenant{w: added, spec: w.spec, feeds: w.feeds}
	}
}

// lookLocked reconciles now, and has the tick go on where that is not all.
func (k *keeper) lookLocked() {
	if k.ctx != nil && k.reconcileLocked(time.Now()) {
		k.nudge()
	}
}

// nudge has Run look.
func (k *keeper) nudge() {
	select {
	case k.kick <- struct{}{}:
	default: // it is due anyway
	}
}

// kind is what a worker does that another one could do as well.
type kind struct {
	model string
	role  worker.Role
}

func kindOf(w *worker.Worker) (kind, bool) {
	info := w.Info()
	if info == nil {
		return kind{}, false
	}
	return kind{info.Model(), info.Role()}, true
}

// servedLocked returns the kinds of which somebody is ready who is meant to stay.
func (k *keeper) servedLocked(wishes map[string]*wish) map[kind]bool {
	served := map[kind]bool{}
	for url, t := range k.kept {
		if wishes[url] == nil || t.w.State() != worker.Ready {
			continue
		}
		if of, known := kindOf(t.w); known {
			served[of] = true
		}
	}
	return served
}

// leaveLocked takes a worker that nobody names a step further to its end.
func (k *keeper) leaveLocked(t *tenant, now time.Time, served map[kind]bool) {
	if t.left.IsZero() {
		t.left = now
		k.log.Info("worker has left", "worker", t.w.URL, "in_flight", t.w.InFlight())
	}
	held := k.heldLocked(t, now, served)
	if held != "" && held != t.held {
		k.log.Warn("worker has left, and is used on while it answers", "worker", t.w.URL, "because", held)
	}
	t.held = held
	t.w.DrainFor(worker.DrainLeaving, held == "")
	if held != "" {
		t.drained = time.Time{}
		return
	}
	if t.drained.IsZero() {
		t.drained = now
	}
	switch inFlight := t.w.InFlight(); {
	case inFlight == 0:
		k.log.Info("worker is removed", "worker", t.w.URL)
		k.removeLocked(t)
	case now.Sub(t.drained) >= k.cfg.Drain:
		k.log.Warn("worker is removed before its requests have ended; they go on", "worker", t.w.URL, "in_flight", inFlight)
		k.removeLocked(t)
	}
}

// heldLocked says why a worker that left is used on; "": it is not.
func (k *keeper) heldLocked(t *tenant, now time.Time, served map[kind]bool) string {
	answers := t.w.Probed() == worker.Ready || t.w.Probed() == worker.Slow
	if t.now || !answers {
		return ""
	}
	if slices.ContainsFunc(t.feeds, func(f *feed) bool { return f.gone }) &&
		slices.ContainsFunc(k.feeds, func(f *feed) bool { return !f.answered && f.failed == nil }) {
		return "a new source has told nothing yet"
	}
	if now.Sub(t.left) >= k.cfg.Grace {
		return ""
	}
	if len(t.feeds) > 0 && !slices.ContainsFunc(t.feeds, func(f *feed) bool { return f.lost.IsZero() }) {
		return "its source names nobody any more"
	}
	if of, known := kindOf(t.w); known && !served[of] {
		return "nobody else is ready who does what it does"
	}
	return ""
}

// removeLocked takes a worker out of the registry. Its cache is forgotten by a goroutine: that takes a while.
func (k *keeper) removeLocked(t *tenant) {
	url := t.w.URL
	delete(k.kept, url)
	forgotten, err := k.registry.Detach(url)
	if err != nil {
		k.log.Error("cannot remove worker", "worker", url, "error", err)
		return
	}
	k.removing[url] = true
	k.running.Go(func() {
		forgotten()
		k.mu.Lock()
		delete(k.removing, url)
		k.mu.Unlock()
		k.nudge()
	})
}
