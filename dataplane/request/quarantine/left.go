package quarantine

import "time"

const (
	// leftFor is how long the death of a worker may follow a request whose client has left: SGLang's
	// HTTP process outlives its scheduler by up to 65 s.
	leftFor = 75 * time.Second
	// maxLeft bounds the requests of which that is remembered; the oldest are forgotten.
	maxLeft = 512
)

// left is a request whose client left before its answer began.
type left struct {
	key    uint64
	worker string
	at     time.Time
}

// Left notes a request whose client left before its answer began: nobody hears how its worker
// takes it.
func (w *Ward) Left(key uint64, worker string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.left) < maxLeft {
		w.left = append(w.left, left{key, worker, at})
		return
	}
	w.left[w.oldest] = left{key, worker, at}
	w.oldest = (w.oldest + 1) % maxLeft
}

// Died tells that a worker is gone: requests that had it to themselves when their clients left are
// suspects, and refused at their second death.
func (w *Ward) Died(worker string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	blamed := w.trials[worker] != nil || at.Sub(w.blamed[worker]) < echoes
	for i := range w.left {
		l := &w.left[i]
		if l.worker != worker {
			continue
		}
		l.worker = "" // one death for each
		if !blamed && at.Sub(l.at) < leftFor {
			w.suspectLocked(l.key, worker, at)
		}
	}
}

// suspectLocked counts a death for a request whose client had left.
func (w *Ward) suspectLocked(key uint64, worker string, at time.Time) {
	r := w.caseLocked(key, at)
	if r == nil {
		r = w.openLocked(key, at)
	}
	if r.deaths > 0 && r.worker == worker && at.Sub(r.last) < echoes {
		return // an equal request has told of it
	}
	r.deaths++
	r.last, r.worker, r.likely = at, worker, true
	w.Deaths.Add(1)
	if r.deaths >= deadly {
		w.refuseLocked(r, key, worker, at)
	}
}
