package policies

import (
	"context"
	"fmt"
	"math"

	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/routing/session"
)

// Greedy is the name of the all-knowing router: it sees every cache, every queue and every
// running batch as they are now, and no router that must be told can. It is the baseline that
// the others are measured by.
const Greedy = "greedy"

// Names lists the policies of package policy, the baselines and [Greedy].
func Names() []string { return append(policyNames(), Greedy) }

// run is one simulation of one policy.
type run struct {
	*plan
	cfg       Config
	name      string
	pick      policy.Policy // of the first replica; nil: greedy
	workers   []*worker
	replicas  []*replica
	tasks     []task
	ablated   ablation
	refused   int
	answered  int
	time      timeline
	progress  func(int)
	observe   func(*worker) // of tests: after every step of a worker; may be nil
	greedy    greedy
	holding   holding
	transfers transfers
	tiers     nodeTiers
	arrivals  arrivals
}

// targets are the workers that take prompts.
func (s *run) targets() []*worker {
	if s.cfg.Prefill > 0 {
		return s.workers[:s.cfg.Prefill]
	}
	return s.workers
}

// newRun prepares a simulation. cfg has its defaults.
func newRun(p *plan, cfg Config, name string, progress func(int)) (*run, error) {
	s := &run{plan: p, cfg: cfg, name: name, tasks: make([]task, len(p.jobs)), ablated: ablate(cfg.Ablate), progress: progress}
	s.greedy.run, s.holding.run, s.transfers.run, s.tiers.run, s.arrivals.run = s, s, s, s, s
	if name != Greedy {
		pick, err := newPolicy(name, s.options(0))
		if err != nil {
			return nil, err
		}
		s.pick = pick
	}
	s.build()
	s.arrivals.build()
	return s, nil
}

// options are those of a replica's policy.
func (s *run) options(replica int) policy.Options {
	o := s.cfg.Options
	o.Without |= s.ablated.terms
	if s.cfg.Prefill > 0 {
		o.Without |= policy.PrefillWithout
	}
	if s.cfg.Share == SharePolls && !s.ablated.replica {
		o.Replica, o.Replicas = replica, s.cfg.Routers
	}
	return o
}

// simulate plays the plan under one policy. cfg has its defaults.
func simulate(ctx context.Context, p *plan, cfg Config, name string, progress func(int)) (*run, error) {
	s, err := newRun(p, cfg, name, progress)
	if err != nil {
		return nil, err
	}
	return s, s.loop(ctx)
}

// approximate reports whether the policy sees the approximate tree: sglang-router's rule has
// nothing else.
func (s *run) approximate() bool { return s.cfg.Approx || s.name == "approx" }

// build makes workers and replicas, each with a view of its own: only it knows its requests in
// flight.
func (s *run) build() {
	for i := range s.cfg.Workers {
		tell := s.events
		if s.approximate() || s.pick == nil {
			tell = nil
		}
		w := newWorker(i, s.plan, s.cfg.Service.at(s.cfg.speed(i)), int32(s.cfg.CacheTokens/s.page), int32(s.cfg.HostTokens/s.page), tell)
		switch {
		case s.cfg.Prefill == 0:
		case i < s.cfg.Prefill:
			w.role = prefills
		default:
			w.role, w.cache.told, w.host = decodes, nil, nil
		}
		s.workers = append(s.workers, w)
	}
	s.transfers.token = clock(math.Round(float64(second) / s.cfg.TransferTokensPerSecond))
	n := len(s.targets())
	for k := range s.cfg.Routers {
		r := &replica{alone: s.ablated.foreign, pick: s.pick, loads: make([]load, n), candidates: make([]policy.Candidate, n), overlaps: make([]overlap, n), view: newView(s.plan, n)}
		r.sessions = session.New()
		for i := range r.loads {
			r.loads[i].speed.Chunk = s.cfg.Service.ChunkedPrefill
		}
		if s.cfg.queue != "" && s.pick != nil {
			r.gate = newGate(s.cfg.queue, s.cfg.deadline)
		}
		if _, shared := s.pick.(*stickySessions); k > 0 && s.pick != nil && !shared {
			r.pick, _ = newPolicy(s.name, s.options(k)) // is known by now
		}
		if s.approximate() {
			for i := range n {
				r.trees = append(r.trees, newCache(s.plan, func(n, held int32) { r.view.set(int32(i), n, held) }))
			}
		}
		s.replicas = append(s.replicas, r)
	}
	s.tiers.build()
}

// events tells every replica of changes at a worker.
func (s *run) events(all []change) {
	for _, c := range all {
		c.at = s.time.now + ticks(s.cfg.EventDelay)
		for _, r := range s.replicas {
			r.view.expect(c)
		}
	}
}

// timeline is the time of a run and of its next reports.
type timeline struct {
	now      clock
	nextPoll clock
}

// loop plays the trace. At one instant reports come first, then arrivals, then steps of
// workers.
func (s *run) loop(ctx context.Context) error {
	for !s.arrivals.over() {
		at, w := never, (*worker)(nil)
		for _, other := range s.workers {
			if other.until < at {
				at, w = other.until, other
			}
		}
		if next := s.arrivals.next(); next <= at {
			at, w = next, nil
		}
		if s.meanwhile(at) {
			continue
		}
		if at == never {
			return fmt.Errorf("cannot go on with %d of %d requests answered: %w", s.answered, s.arrivals.begun, ErrConfig)
		}
		s.upkeep(at)
		s.arrivals.warmed(at)
		s.time.now = at
		if w != nil {
			w.advance(at, s.done)
			s.holding.freed = s.cfg.queue != ""
			if s.observe != nil {
				s.observe(w)
			}
			continue
		}
		s.arrive(s.arrivals.take())
		if s.arrivals.begun%512 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			s.progress(s.arrivals.progressed())
		}
	}
	s.progress(len(s.jobs))
	return nil
}

// meanwhile takes the next step between routers and workers, if it comes before at.
func (s *run) meanwhile(at clock) bool {
	switch {
	case len(s.transfers.transit) > 0 && s.transfers.transit[0].landed < at:
		s.upkeep(s.transfers.transit[0].landed)
		s.time.now = s.transfers.transit[0].landed
		s.transfers.land(s.time.now)
	case s.holding.freed && s.time.now < at:
		// One at a time, and behind all of this instant: no worker then has two arrivals at
		// once.
		s.time.now++
		s.upkeep(s.time.now)
		s.holding.freed = s.holding.release()
	case s.time.nextPoll < at && s.holding.waits():
		s.time.now = s.time.nextPoll
		s.upkeep(s.time.now)
		s.holding.freed = true
	default:
		return false
	}
	return true
}

// upkeep makes the reports that are due by at.
func (s *run) upkeep(at clock) {
	if s.pick == nil {
		return
	}
	for s.time.nextPoll <= at {
		for i, w := range s.targets() {
			report := w.report(s.time.nextPoll)
			for _, r := range s.replicas {
				r.take(s.time.nextPoll) // else requests in the report would be counted twice
				r.hear(i, report)
			}
		}
		s.time.nextPoll += ticks(s.cfg.Poll)
	}
}

// arrive routes job i and sends it.
func (s *run) arrive(i int32) {
	t := &s.tasks[i]
	t.job, t.id, t.arrived = &s.jobs[i], i, s.time.now
	if !s.workers[0].fits(t.job) || !s.workers[len(s.workers)-1].fits(t.job) {
		s.refused++
		t.worker = -1
		s.arrivals.ended(t)
		return
	}
	if s.pick == nil {
		t.worker = int32(s.greedy.pick(t))
	} else {
		t.replica = int32(mix(s.cfg.Seed^uint64(i)) % uint64(len(s.replicas)))
		r := s.replicas[t.replica]
		if r.gate != nil {
			if !s.holding.enter(r, t) {
				s.holding.turnAway(t)
			}
			return
		}
		s.route(r, t)
	}
	t.sent = s.time.now
	s.workers[t.worker].submit(t, s.time.now)
}

// done hears of first tokens, of ends, and of prompts that are ready for a decoding worker.
func (s *run) done(t *task, now clock) {
	handed := s.cfg.Prefill > 0 && t.landed == 0
	if s.pick != nil && (s.cfg.Prefill == 0 || handed) {
		if handed || t.first == now {
			s.spread(t, noteBegun)
		}
		if handed || t.ended == now {
			s.spread(t, noteEnded)
			if r := s.replicas[t.replica]; r.trees == nil {
				r.view.predict(t.worker, t.path, int32(t.input/s.page), -1)
			}
		}
	}
	if handed {
		s.transfers.send(t, now)
		return
	}
	if t.ended == now {
		s.answered++
		s.arrivals.ended(t)
	}
}

// spread lets replicas know of a step of t's life: its own at once, the others as they share.
func (s *run) spread(t *task, kind uint8) {
	for i, r := range s.replicas {
		switch {
		case i == int(t.replica):
			r.loads[t.worker].note(t, kind, s.time.now)
			r.follow(t, kind, s.time.now)
		case s.cfg.Share != SharePolls:
			r.inbox = append(r.inbox, note{at: s.time.now + ticks(s.cfg.Hop), t: t, kind: kind})
		}
	}
}
