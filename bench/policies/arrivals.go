package policies

import (
	"cmp"
	"slices"
)

// arrivals say when the next request comes: in an open loop at the trace's times, in a closed
// loop by the answers so far.
type arrivals struct {
	*run
	begun int     // requests that have come
	due   []due   // turns by their time, equal times by their order in the plan
	left  []int32 // of each played session, turns without an answer

	warm, end clock // of a closed loop's measurement; 0 and never in an open loop
	before    []workerCounts
}

// due is a turn's time.
type due struct {
	at  clock
	job int32
}

func (d due) compare(e due) int { return cmp.Or(cmp.Compare(d.at, e.at), cmp.Compare(d.job, e.job)) }

// build puts the first turns of all users down.
func (a *arrivals) build() {
	a.end = never
	c := a.course
	if c == nil {
		return
	}
	a.warm, a.end = ticks(c.Warmup), ticks(c.Warmup+c.For)
	if c.Open {
		return
	}
	a.left = make([]int32, len(c.played))
	for i := range c.played {
		a.left[i] = c.played[i].turns
	}
	for user, begin := range c.begins {
		if c.of[user] < c.of[user+1] {
			a.follow(c.played[c.of[user]].root, begin)
		}
	}
}

// open reports whether requests come at times that are known beforehand.
func (a *arrivals) open() bool { return a.course == nil || a.course.Open }

// follow puts down job and those next to it, after something that happened at at.
func (a *arrivals) follow(job int32, at clock) {
	for ; job >= 0; job = a.course.next[job] {
		if d := (due{at + a.course.wait[job], job}); d.at < a.end {
			i, _ := slices.BinarySearchFunc(a.due, d, due.compare)
			a.due = slices.Insert(a.due, i, d)
		}
	}
}

// next is the time of the next request.
func (a *arrivals) next() clock {
	switch {
	case a.open() && a.begun < len(a.jobs):
		return a.jobs[a.begun].at
	case len(a.due) > 0:
		return max(a.due[0].at, a.time.now)
	}
	return never
}

// take takes the next request.
func (a *arrivals) take() (job int32) {
	job = int32(a.begun)
	if !a.open() {
		job, a.due = a.due[0].job, a.due[1:]
	}
	a.begun++
	return job
}

// over reports whether all requests have come and ended.
func (a *arrivals) over() bool { return a.answered+a.refused == a.begun && a.next() == never }

// ended puts down the turns that follow t, and after the last of its session the user's next
// session. A client takes a refusal for an answer.
func (a *arrivals) ended(t *task) {
	c := a.course
	if a.open() {
		return
	}
	a.follow(c.first[t.id], a.time.now)
	s := c.session[t.id]
	if a.left[s]--; a.left[s] == 0 {
		if next := s + 1; next < c.of[c.played[s].user+1] {
			a.follow(c.played[next].root, a.time.now)
		}
	}
}

// warmed begins the measurement of workers when its time has come.
func (a *arrivals) warmed(at clock) {
	if a.before != nil || a.course == nil || at < a.warm {
		return
	}
	for _, w := range a.workers {
		a.before = append(a.before, w.counts)
		w.gaps = gaps{}
	}
}

// measured reports whether t counts in the result.
func (a *arrivals) measured(t *task) bool {
	return t.job != nil && t.worker >= 0 && t.arrived >= a.warm
}

// first is when the measurement begins.
func (a *arrivals) first() clock {
	if a.course != nil {
		return a.warm
	}
	return a.jobs[0].at
}

// inOrder lists the requests that came by the time of their arrival.
func (a *arrivals) inOrder() (came []*task) {
	for i := range a.tasks {
		if t := &a.tasks[i]; t.job != nil {
			came = append(came, t)
		}
	}
	slices.SortFunc(came, func(s, t *task) int { return cmp.Or(cmp.Compare(s.arrived, t.arrived), cmp.Compare(s.id, t.id)) })
	return came
}

// bound is the share of prompt tokens that a cache without an end finds in the order in which the
// requests came.
func (a *arrivals) bound() float64 {
	e := endless{plan: a.plan, cache: newCache(a.plan, nil)}
	for _, t := range a.inOrder() {
		e.enter(t.job, a.measured(t))
	}
	return ratio(e.hit, e.all)
}

// counts are those of worker i in the measurement.
func (a *arrivals) counts(i int) workerCounts {
	c := a.workers[i].counts
	if a.before != nil {
		b := &a.before[i]
		c.requests -= b.requests
		c.prefilled -= b.prefilled
		c.generated -= b.generated
		c.busy -= b.busy
		c.prefillBusy -= b.prefillBusy
		c.evicted -= b.evicted
	}
	return c
}

// progress tells how many of the requests have come; of a closed loop, the same share of the
// plan as of its time.
func (a *arrivals) progressed() int {
	if a.course == nil {
		return a.begun
	}
	return int(float64(len(a.jobs)) * min(1, ratio(a.time.now.seconds(), a.end.seconds())))
}
