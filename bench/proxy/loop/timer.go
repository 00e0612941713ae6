package loop

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
		l.timers = append(l.timers, t)
		t.at = len(l.timers)
	}
	l.up(t.at - 1)
	l.down(t.at - 1)
}

// Disarm forgets t.
func (l *Loop) Disarm(t *Timer) {
	if t.at == 0 {
		return
	}
	i, last := t.at-1, len(l.timers)-1
	l.place(i, l.timers[last])
	l.timers[last] = nil
	l.timers = l.timers[:last]
	if t.at = 0; i < last {
		l.up(i)
		l.down(l.timers[i].at - 1)
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

func (l *Loop) place(i int, t *Timer) { l.timers[i], t.at = t, i+1 }

func (l *Loop) up(i int) {
	for i > 0 {
		p := (i - 1) / 2
		if l.timers[p].when <= l.timers[i].when {
			return
		}
		a, b := l.timers[p], l.timers[i]
		l.place(p, b)
		l.place(i, a)
		i = p
	}
}

func (l *Loop) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(l.timers) {
			return
		}
		if k+1 < len(l.timers) && l.timers[k+1].when < l.timers[k].when {
			k++
		}
		if l.timers[i].when <= l.timers[k].when {
			return
		}
		a, b := l.timers[i], l.timers[k]
		l.place(i, b)
		l.place(k, a)
		i = k
	}
}
