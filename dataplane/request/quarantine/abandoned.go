package quarantine

import "time"

const (
	// abandonedFor is how long the death of a worker may follow an abandoned request:
	// SGLang's HTTP process outlives its scheduler by up to 65 s.
	abandonedFor = 75 * time.Second
	// maxAbandoned bounds these requests; the oldest are forgotten.
	maxAbandoned = 512
)

// abandoned is a request that its client left before the answer began.
type abandoned struct {
	key    uint64
	name   string
	worker string
	at     time.Time
}

// Abandoned notes that a client left its request before the answer began: no attempt will report
// the loss.
func (q *Quarantine) Abandoned(key uint64, name, worker string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.abandoned) < maxAbandoned {
		q.abandoned = append(q.abandoned, abandoned{key, name, worker, at})
		return
	}
	q.abandoned[q.oldest] = abandoned{key, name, worker, at}
	q.oldest = (q.oldest + 1) % maxAbandoned
}

// WorkerDied takes in the death of a worker. Requests that were alone with it when their clients
// left are suspects, and culprits at their second death.
func (q *Quarantine) WorkerDied(worker string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	explained := q.trials[worker] != nil || at.Sub(q.explained[worker]) < echoFor
	for i := range q.abandoned {
		a := &q.abandoned[i]
		if a.worker != worker {
			continue
		}
		a.worker = "" // one death for each
		if !explained && at.Sub(a.at) < abandonedFor {
			q.accuseLocked(a.key, a.name, worker, at)
		}
	}
}

// accuseLocked counts a death for an abandoned request.
func (q *Quarantine) accuseLocked(key uint64, name, worker string, at time.Time) {
	s := q.suspectLocked(key, at)
	if s == nil {
		s = q.addLocked(key, at)
	}
	if s.deaths > 0 && s.worker == worker && at.Sub(s.last) < echoFor {
		return // an equal request has reported it
	}
	s.deaths++
	s.last, s.worker, s.likely = at, worker, true
	q.Deaths.Add(1)
	if s.deaths >= maxDeaths {
		q.refuseLocked(s, key, name, worker, at)
	}
}
