package quarantine

import (
	"sync"
	"time"
)

const (
	// twinSlots is how many likenesses are known at once, 480 KB: more than there are new prompts without a
	// first byte. One that finds its slot taken goes unwatched.
	twinSlots = 4096
	// apart is how many workers get a request that nobody has answered yet.
	apart = deadly
)

// Twins keeps requests that look alike, and of which none was answered yet, on two workers: clients that send at once
// what ends engines would end one each before the first death is known. The zero value is ready.
type Twins struct {
	slots [twinSlots]twinSlot
}

type twinSlot struct {
	mu       sync.Mutex
	like     uint64        // guarded by mu
	answered bool          // some request that looks so, or one was survived; guarded by mu
	workers  [apart]string // guarded by mu
	flying   [apart]int    // requests there without a first byte; guarded by mu

	// since is from when on some of them was in flight there of which a first byte would not be
	// seen before the end of its answer; zero: none was. Guarded by mu.
	since [apart]time.Time
}

// Join notes that a request is to be sent to a worker. It refuses where two other workers have such requests. at is
// the time of a request whose answer comes in one piece, and zero for a stream: see Survived.
func (t *Twins) Join(like uint64, worker string, at time.Time) bool {
	s := &t.slots[like%twinSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.like != like {
		if s.flying != [apart]int{} {
			return true
		}
		s.like, s.answered = like, false
	}
	if s.answered {
		return true
	}
	free := -1
	for i := range s.workers {
		switch {
		case s.flying[i] == 0:
			free = i
		case s.workers[i] == worker:
			s.flying[i]++
			if s.since[i].IsZero() {
				s.since[i] = at
			}
			return true
		}
	}
	if free < 0 {
		return false
	}
	s.workers[free], s.flying[free], s.since[free] = worker, 1, at
	return true
}

// Survived asks of each worker that has such requests, and since when, whether it was alive long after. If one was,
// they end no engine, as if one had been answered. A stream says more by its first byte: one without was not computed.
func (t *Twins) Survived(like uint64, alive func(worker string, since time.Time) bool) bool {
	s := &t.slots[like%twinSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.like != like {
		return false
	}
	for i := range s.workers {
		if !s.answered && s.flying[i] > 0 && !s.since[i].IsZero() {
			s.answered = alive(s.workers[i], s.since[i])
		}
	}
	return s.answered
}

// Holds reports whether a worker has such requests.
func (t *Twins) Holds(like uint64, worker string) bool {
	s := &t.slots[like%twinSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.workers {
		if s.like == like && s.flying[i] > 0 && s.workers[i] == worker {
			return true
		}
	}
	return false
}

// Flying reports whether such a request is in flight anywhere, and none was answered.
func (t *Twins) Flying(like uint64) bool {
	s := &t.slots[like%twinSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.like == like && !s.answered && s.flying != [apart]int{}
}

// Leave ends what Join began; answered says that the answer has begun.
func (t *Twins) Leave(like uint64, worker string, answered bool) {
	s := &t.slots[like%twinSlots]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.like != like {
		return
	}
	s.answered = s.answered || answered
	for i := range s.workers {
		if s.flying[i] > 0 && s.workers[i] == worker {
			s.flying[i]--
			s.since[i] = time.Time{} // it may have been this one's
			return
		}
	}
}
