package policies

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// Fault is a fault of a worker's GPU in the middle of a run. Config.FaultTold and
// Config.FaultFound are the delays until routers know of it.
type Fault struct {
	Worker int           `json:"worker"`
	At     time.Duration `json:"at"` // since the first arrival
	// Remaining share of its speed; 0: dead, but it answers probes.
	Speed float64       `json:"speed"`
	For   time.Duration `json:"for,omitempty"` // 0 is forever; a dead worker stays dead
}

// String returns the fault in the form that ParseFault reads.
func (f Fault) String() string {
	text := fmt.Sprintf("%d@%v:%v", f.Worker, f.At, f.Speed)
	if f.For > 0 {
		text += fmt.Sprintf(":%v", f.For)
	}
	return text
}

// ParseFault reads "WORKER@TIME:SPEED" or "WORKER@TIME:SPEED:DURATION": "2@60s:0.5" is worker 2
// at half of its speed from 60 s on, and "2@60s:0" its death.
func ParseFault(text string) (f Fault, err error) {
	bad := fmt.Errorf("cannot use fault %q: %w: want WORKER@TIME:SPEED or WORKER@TIME:SPEED:DURATION, such as 2@60s:0.5", text, ErrConfig)
	who, rest, ok := strings.Cut(text, "@")
	parts := strings.Split(rest, ":")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return f, bad
	}
	if f.Worker, err = strconv.Atoi(who); err != nil {
		return f, bad
	}
	if f.At, err = time.ParseDuration(parts[0]); err != nil {
		return f, bad
	}
	if f.Speed, err = strconv.ParseFloat(parts[1], 64); err != nil {
		return f, bad
	}
	if len(parts) == 3 {
		if f.For, err = time.ParseDuration(parts[2]); err != nil || f.For <= 0 {
			return f, bad
		}
	}
	return f, nil
}

func (c *Config) checkFaults() error {
	for _, f := range c.Faults {
		switch {
		case f.Worker < 0 || f.Worker >= c.Workers || f.At < 0 || f.For < 0 || !(f.Speed >= 0 && f.Speed < 1):
			return fmt.Errorf("cannot simulate fault %v of %d workers: %w: want a speed of 0 to less than 1", f, c.Workers, ErrConfig)
		case f.Speed > 0 && f.Speed < 0.01:
			return fmt.Errorf("cannot simulate fault %v: %w: want a speed of 0, or at least 0.01", f, ErrConfig)
		case c.Prefill > 0 || c.Share == ShareOne || len(c.Queues) > 0:
			return fmt.Errorf("cannot simulate fault %v with workers that only prefill, a replica that chooses for all or a queue: %w", f, ErrConfig)
		}
	}
	return nil
}

// event is a step of a fault.
type faultEvent struct {
	at clock
	Fault
	kind uint8
}

const (
	faultStrikes = iota
	faultKnown   // to routers
	faultEnds
	faultForgotten // by routers
)

// faults are the GPU faults of a run.
type faults struct {
	*run
	events []faultEvent // to come, by time
	lost   int          // refused requests with an answer begun by a worker that died
}

// outage is a replica's knowledge of a worker's faults.
type outage struct {
	out          bool
	weight, full float64 // as in a policy.Candidate
}

// plan lists the steps of all faults. Routers with health know of a fault by the facts about
// the GPU; without, they know a slow worker by its measured rate only, and a dead one when it
// is found.
func (s *faults) plan() {
	first := s.jobs[0].at
	for _, f := range s.cfg.Faults {
		at, told := first+ticks(f.At), ticks(s.cfg.FaultTold)
		if s.ablated.health {
			told = never
			if f.Speed == 0 {
				told = ticks(s.cfg.FaultFound)
			}
		}
		add := func(at clock, kind uint8) {
			s.events = append(s.events, faultEvent{at, f, kind})
		}
		add(at, faultStrikes)
		if told != never {
			add(at+told, faultKnown)
		}
		if f.For == 0 || f.Speed == 0 {
			continue
		}
		add(at+ticks(f.For), faultEnds)
		if told != never {
			add(at+ticks(f.For)+told, faultForgotten)
		}
	}
	slices.SortStableFunc(s.events, func(a, b faultEvent) int { return cmp.Compare(a.at, b.at) })
	for _, r := range s.replicas {
		r.known.outages = make([]outage, len(s.workers))
	}
}

// next is when something happens to a GPU or becomes known of it.
func (s *faults) next() clock {
	if len(s.events) == 0 {
		return never
	}
	return s.events[0].at
}

// suffer lets it happen.
func (s *faults) suffer() {
	f := s.events[0]
	s.events = s.events[1:]
	s.upkeep(f.at)
	s.time.now = f.at
	w := s.workers[f.Worker]
	switch f.kind {
	case faultStrikes:
		w.change(s.cfg.Service.at(s.cfg.speed(f.Worker)*max(f.Speed, 0.01)), f.at)
		if f.Speed == 0 {
			w.dead, w.until, w.steps = true, never, 0
			w.idle = false // nothing begins any more
		}
	case faultKnown:
		for _, r := range s.replicas {
			r.known.outages[f.Worker] = outage{out: f.Speed == 0, weight: f.Speed, full: r.loads[f.Worker].speed.Rate()}
		}
		if f.Speed == 0 {
			s.rescue(w)
		}
	case faultEnds:
		w.change(s.cfg.Service.at(s.cfg.speed(f.Worker)), f.at)
	case faultForgotten:
		for _, r := range s.replicas {
			r.known.outages[f.Worker] = outage{}
		}
	}
}

// rescue sends elsewhere the requests that a dead worker has not begun to answer; the others
// are lost.
func (s *faults) rescue(w *worker) {
	var left []*task
	for _, p := range w.batch {
		if p.task != w.chunked {
			left = append(left, p.task)
		}
	}
	if w.chunked != nil {
		left = append(left, w.chunked)
	}
	left = append(left, w.waiting...)
	for _, t := range w.running {
		s.forget(t)
		t.worker = -1
		s.refused++
		s.lost++
		s.arrivals.ended(t)
	}
	w.batch, w.chunked, w.waiting, w.running = nil, nil, nil, nil
	for _, t := range left {
		s.forget(t)
		t.computed, t.cached, t.hosted, t.load, t.inTree, t.owned, t.locks = 0, 0, 0, 0, 0, 0, 0
		if s.pick == nil {
			t.worker = int32(s.greedy.pick(t))
		} else {
			s.route(s.replicas[t.replica], t)
		}
		s.workers[t.worker].submit(t, s.time.now)
	}
}

// forget takes a task off its worker's load at all replicas.
func (s *faults) forget(t *task) {
	if s.pick == nil {
		return
	}
	if t.made == 0 {
		s.spread(t, noteBegun)
	}
	s.spread(t, noteEnded)
	if r := s.replicas[t.replica]; r.trees == nil {
		r.view.predict(t.worker, t.path, int32(t.input/s.page), -1)
	}
}

// knownFaults are the faults that a replica knows.
type knownFaults struct {
	outages []outage
	left    candidates // on living workers, and the indices of these
	open    []int32
}

// judge fills a candidate with the known fault of worker i.
func (k *knownFaults) judge(c *policy.Candidate, i int) {
	if len(k.outages) > 0 && k.outages[i].weight > 0 {
		c.Weight, c.FullRate = k.outages[i].weight, k.outages[i].full
	}
}

// alive leaves out the workers that are known to be dead, unless all are.
func (k *knownFaults) alive(some candidates, open []int32) (candidates, []int32) {
	if !slices.ContainsFunc(k.outages, func(o outage) bool { return o.out }) {
		return some, open
	}
	k.left, k.open = k.left[:0], k.open[:0]
	for i := range some {
		at := int32(i)
		if open != nil {
			at = open[i]
		}
		if !k.outages[at].out {
			k.left, k.open = append(k.left, some[i]), append(k.open, at)
		}
	}
	if len(k.left) == 0 {
		return some, open
	}
	return k.left, k.open
}

// describeFaults is a part of Config.describe.
func (c *Config) describeFaults() string {
	var b strings.Builder
	for _, f := range c.Faults {
		if f.Speed == 0 {
			fmt.Fprintf(&b, "; worker %d dies after %v", f.Worker, f.At)
			continue
		}
		fmt.Fprintf(&b, "; worker %d has %g %% of its speed after %v", f.Worker, math.Round(100*f.Speed), f.At)
		if f.For > 0 {
			fmt.Fprintf(&b, " for %v", f.For)
		}
	}
	if len(c.Faults) > 0 {
		fmt.Fprintf(&b, ", routers know after %v and without health of a death after %v", c.FaultTold, c.FaultFound)
	}
	return b.String()
}
