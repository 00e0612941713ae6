package quarantine

import (
	"sync"
	"time"
)

const (
	// duplicateSlots bounds the likenesses in memory, 480 KB: more than there are new prompts
	// without a first byte. A request that finds its slot taken is not limited.
	duplicateSlots = 4096
	// duplicateWorkers is how many workers get equal requests of which none is answered yet.
	duplicateWorkers = maxDeaths
)

// Duplicates limits equal requests to two workers until one of them is answered. Clients that send
// a culprit many times at once would otherwise end one engine each before the first death is known.
// The zero value is ready.
type Duplicates struct {
	slots [duplicateSlots]duplicateSlot
}

// duplicateSlot holds the requests of one likeness: equal prompts have the same.
type duplicateSlot struct {
	mu       sync.Mutex
	likeness uint64 // guarded by mu
	// A request was answered, or a worker has survived it; guarded by mu.
	answered bool
	workers  [duplicateWorkers]string // guarded by mu
	inFlight [duplicateWorkers]int    // requests there without a first byte; guarded by mu

	// since is the time of the first request there with an answer in one piece, so that no first
	// byte shows that it was computed; zero: none is in flight. Guarded by mu.
	since [duplicateWorkers]time.Time
}

// Begin notes that a request is to be sent to a worker. It refuses where two other workers have
// equal requests. at is the time of a request for an answer in one piece, and zero for a
// stream: see Survived.
func (d *Duplicates) Begin(likeness uint64, worker string, at time.Time) bool {
	s := &d.slots[likeness%duplicateSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.likeness != likeness {
		if s.inFlight != [duplicateWorkers]int{} {
			return true
		}
		s.likeness, s.answered = likeness, false
	}
	if s.answered {
		return true
	}
	free := -1
	for i := range s.workers {
		switch {
		case s.inFlight[i] == 0:
			free = i
		case s.workers[i] == worker:
			s.inFlight[i]++
			if s.since[i].IsZero() {
				s.since[i] = at
			}
			return true
		}
	}
	if free < 0 {
		return false
	}
	s.workers[free], s.inFlight[free], s.since[free] = worker, 1, at
	return true
}

// Survived asks for each worker with such requests whether it was alive long after it got them. If
// one was, they end no engine, as if one had been answered. A stream proves less: without its first
// byte it may not have been computed.
func (d *Duplicates) Survived(likeness uint64, alive func(worker string, since time.Time) bool) bool {
	s := &d.slots[likeness%duplicateSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.likeness != likeness {
		return false
	}
	for i := range s.workers {
		if !s.answered && s.inFlight[i] > 0 && !s.since[i].IsZero() {
			s.answered = alive(s.workers[i], s.since[i])
		}
	}
	return s.answered
}

// InFlightAt reports whether a worker has such requests.
func (d *Duplicates) InFlightAt(likeness uint64, worker string) bool {
	s := &d.slots[likeness%duplicateSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.workers {
		if s.likeness == likeness && s.inFlight[i] > 0 && s.workers[i] == worker {
			return true
		}
	}
	return false
}

// InFlight reports whether any worker has such a request, and none was answered.
func (d *Duplicates) InFlight(likeness uint64) bool {
	s := &d.slots[likeness%duplicateSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.likeness == likeness && !s.answered && s.inFlight != [duplicateWorkers]int{}
}

// End ends a request of Begin; answered says that its answer has begun.
func (d *Duplicates) End(likeness uint64, worker string, answered bool) {
	s := &d.slots[likeness%duplicateSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.likeness != likeness {
		return
	}
	s.answered = s.answered || answered
	for i := range s.workers {
		if s.inFlight[i] > 0 && s.workers[i] == worker {
			s.inFlight[i]--
			s.since[i] = time.Time{} // it may have been this request's
			return
		}
	}
}
