package quarantine

import "time"

// Busy appends the workers on which a suspect is on trial now: other requests do better elsewhere.
func (w *Ward) Busy(dst []string, now time.Time) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for worker, t := range w.trials {
		if now.Sub(t.began) < w.cfg.Turn {
			dst = append(dst, worker)
		}
	}
	return dst
}

// Take begins a suspect's turn on a worker; nil means that it must wait: for the worker, or for the outcome of
// an equal request.
func (w *Ward) Take(key uint64, worker string, now time.Time) *Turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.caseLocked(key, now)
	if r == nil {
		r = &record{} // cleared meanwhile: its turn is of no consequence
	} else if r.flying != nil || !r.refused.IsZero() {
		return nil
	}
	if t := w.trials[worker]; t != nil {
		if now.Sub(t.began) < w.cfg.Turn {
			return nil
		}
		w.endLocked(t) // it is still in flight, and has not ended the engine in its time
	}
	t := &Turn{w: w, key: key, worker: worker, began: now}
	w.trials[worker], r.flying = t, t
	w.trying.Store(int64(len(w.trials)))
	return t
}

// Wait returns a channel that is closed when a turn has ended or a case has changed. Turns also end by time,
// which closes nothing.
func (w *Ward) Wait() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// Begun ends the turn: the answer has begun. An equal request waits on.
func (t *Turn) Begun() {
	if t == nil {
		return
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.endLocked(t)
}

// End ends the turn and lets an equal request have one.
func (t *Turn) End() {
	if t == nil {
		return
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.endLocked(t)
	if r := t.w.cases[t.key]; r != nil && r.flying == t {
		r.flying = nil
		t.w.wakeLocked()
	}
}

// endLocked frees the turn's worker.
func (w *Ward) endLocked(t *Turn) {
	if w.trials[t.worker] != t {
		return
	}
	delete(w.trials, t.worker)
	w.trying.Store(int64(len(w.trials)))
	w.wakeLocked()
}

func (w *Ward) wakeLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
}
