package quarantine

import "sync"

const (
	// twinSlots is how many likenesses are known at once, 256 KB: more than there are new prompts without a
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
	answered bool          // some request that looks so; guarded by mu
	workers  [apart]string // guarded by mu
	flying   [apart]int    // requests there without a first byte; guarded by mu
}

// Join notes that a request is to be sent to a worker. It refuses where two other workers have such requests.
func (t *Twins) Join(like uint64, worker string) bool {
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
			return true
		}
	}
	if free < 0 {
		return false
	}
	s.workers[free], s.flying[free] = worker, 1
	return true
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
			return
		}
	}
}
