package quarantine

import "time"

// TrialWorkers appends the workers that have a trial now: other requests do better elsewhere.
func (q *Quarantine) TrialWorkers(dst []string, now time.Time) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	for worker, t := range q.trials {
		if now.Sub(t.began) < q.cfg.Trial {
			dst = append(dst, worker)
		}
	}
	return dst
}

// BeginTrial begins a suspect's trial on a worker. It returns nil where the suspect must wait: for
// the worker, or for the outcome of an equal request.
func (q *Quarantine) BeginTrial(key uint64, worker string, now time.Time) *Trial {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.suspectLocked(key, now)
	if s == nil {
		s = &suspect{} // cleared meanwhile: the trial has no consequence
	} else if s.trial != nil || !s.refused.IsZero() {
		return nil
	}
	if t := q.trials[worker]; t != nil {
		if now.Sub(t.began) < q.cfg.Trial {
			return nil
		}
		q.endLocked(t) // still in flight, and the engine has survived its time
	}
	t := &Trial{q: q, key: key, worker: worker, began: now}
	q.trials[worker], s.trial = t, t
	q.trying.Store(int64(len(q.trials)))
	return t
}

// Changed returns a channel that is closed when a trial has ended or a suspect has changed. The end
// of a trial by time closes nothing.
func (q *Quarantine) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// AnswerBegan ends the trial, but for equal requests: they wait on.
func (t *Trial) AnswerBegan() {
	if t == nil {
		return
	}
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	t.q.endLocked(t)
}

// End ends the trial and lets an equal request have one.
func (t *Trial) End() {
	if t == nil {
		return
	}
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	t.q.endLocked(t)
	if s := t.q.suspects[t.key]; s != nil && s.trial == t {
		s.trial = nil
		t.q.wakeLocked()
	}
}

// endLocked frees the trial's worker.
func (q *Quarantine) endLocked(t *Trial) {
	if q.trials[t.worker] != t {
		return
	}
	delete(q.trials, t.worker)
	q.trying.Store(int64(len(q.trials)))
	q.wakeLocked()
}

func (q *Quarantine) wakeLocked() {
	close(q.changed)
	q.changed = make(chan struct{})
}
