package loop

import "container/heap"

// Timer calls a function at a time. The zero value with F set is one that is not armed.
type Timer struct {
	F    func()
	when int64
	at   int // in the heap, from 1 on; 0 when not armed
}

// never is a time-out without end.
const never = int64(-1)

// Arm has t called at when, in the loop's time, instead of at any time set before.
func (l *Loop) Arm(t *Timer, when int64) {
	t.when = when
	if t.at == 0 {
		heap.Push(&l.timers, t)
	} else {
		heap.Fix(&l.timers, t.at-1)
	}
}

// Disarm forgets t.
func (l *Loop) Disarm(t *Timer) {
	if t.at > 0 {
		heap.Remove(&l.timers, t.at-1)
	}
}

// patience is how long the loop may wait, in nanoseconds.
func (l *Loop) patience() int64 {
	if len(l.timers) == 0 {
		return never
	}
	return max(0, l.timers[0].when-l.Now())
}

// fire calls due timers. Timers armed meanwhile wait for the next turn of the loop, so that sockets
// are served in between.
func (l *Loop) fire() {
	if len(l.timers) == 0 {
		return
	}
	for now := l.Now(); len(l.timers) > 0 && l.timers[0].when <= now; {
		t := l.timers[0]
		l.Disarm(t)
		t.F()
	}
}

// timers is a heap.Interface by when.
type timers []*Timer

func (h timers) Len() int           { return len(h) }
func (h timers) Less(i, j int) bool { return h[i].when < h[j].when }

func (h timers) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i+1, j+1
}

// Push implements heap.Interface.
func (h *timers) Push(x any) {
	t := x.(*Timer)
	*h = append(*h, t)
	t.at = len(*h)
}

// Pop implements heap.Interface.
func (h *timers) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last], *h, t.at = nil, (*h)[:last], 0
	return t
}
