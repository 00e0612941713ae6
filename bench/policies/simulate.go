package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Report is a comparison of policies on one trace.
type Report struct {
	Trace    Summary   `json:"trace"`
	Config   Config    `json:"config"`
	Users    *Users    `json:"users,omitempty"` // nil: an open loop
	Results  []*Result `json:"results"`
	Capacity *Capacity `json:"capacity,omitempty"` // of [FindUsers]
	Advice   []string  `json:"advice,omitempty"`
	Warnings []string  `json:"warnings,omitempty"`
}

// Summary describes a trace.
type Summary struct {
	Name     string        `json:"name"`
	Requests int           `json:"requests"`
	Span     time.Duration `json:"span"` // of arrivals, at the simulated rate
	Input    float64       `json:"input"`
	Output   float64       `json:"output"` // both mean tokens
	// Bound is the hit rate of one cache without an end, entered at once: no router can do
	// better.
	Bound float64 `json:"bound"`
	// Demand is the prefill that the trace asks for with an empty cache, in workers of
	// Service's speed.
	Demand float64 `json:"demand"`
}

// Progress hears how many requests of how many a policy has been given.
type Progress func(policy string, done, total int)

// Simulate plays a trace under each of the named policies, one after the other, each with empty
// caches. The same arguments give the same results.
func Simulate(ctx context.Context, name string, requests []Request, cfg Config, names []string, progress Progress) (*Report, error) {
	s, err := newStudy(requests, cfg, progress)
	if err != nil {
		return nil, err
	}
	return s.compare(ctx, name, names)
}

// compare simulates each of the named policies, and the variants of kv.
func (s *study) compare(ctx context.Context, name string, names []string) (*Report, error) {
	r := &Report{Config: s.cfg, Trace: s.summary(name)}
	if s.plan.course != nil {
		r.Users = &s.plan.course.Users
	}
	play := func(policy, shown string, cfg Config) error {
		result, err := s.run(ctx, policy, cfg)
		if err != nil {
			return fmt.Errorf("cannot simulate %s: %w", shown, err)
		}
		result.Policy = shown
		r.Results = append(r.Results, result)
		return nil
	}
	for _, policy := range names {
		if err := play(policy, policy, s.cfg); err != nil {
			return r, err
		}
	}
	variants, shown := []Config{}, []string{} // of kv
	add := func(name string, change func(c *Config)) {
		variants, shown = append(variants, s.cfg), append(shown, name)
		change(&variants[len(variants)-1])
	}
	if s.cfg.both && slices.Contains(names, "kv") {
		add("kv, shared", func(c *Config) { c.Share = ShareGossip })
	}
	for _, order := range s.cfg.Queues {
		add("kv, "+order+" queue", func(c *Config) { c.queue = order })
	}
	for _, what := range s.cfg.Study {
		add("kv without "+what, func(c *Config) { c.Ablate = append(slices.Clone(c.Ablate), what) })
	}
	for i, cfg := range variants {
		if err := play("kv", shown[i], cfg); err != nil {
			return r, err
		}
	}
	if s.plan.course != nil {
		r.Trace.Bound = s.bound
		for _, x := range r.Results {
			r.Trace.Requests = max(r.Trace.Requests, x.Requests)
		}
	}
	r.warn()
	return r, nil
}

// study is a trace that is simulated several times.
type study struct {
	cfg      Config
	plan     *plan
	progress Progress
	bound    float64 // share of tokens that a cache without an end finds in the first run
}

func newStudy(requests []Request, cfg Config, progress Progress) (*study, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return nil, errors.New("policies: cannot simulate an empty trace")
	}
	if progress == nil {
		progress = func(string, int, int) {}
	}
	return &study{cfg: cfg, plan: newPlan(requests, cfg.PageSize, cfg.Rate, cfg.Spread), progress: progress}, nil
}

// errNoTurn is a closed loop in which all users think to the end.
var errNoTurn = errors.New("policies: no turn comes before the end")

// newUserStudy lays out the sessions of users.
func newUserStudy(sessions []trace.Session, u Users, cfg Config, progress Progress) (*study, error) {
	u, cfg = u.withDefaults(), cfg.withDefaults()
	if err := errors.Join(u.check(), cfg.check()); err != nil {
		return nil, err
	}
	scripts := newScripts(sessions, u.Play)
	if len(scripts) == 0 {
		return nil, fmt.Errorf("cannot simulate users: %w: no turn of the sessions has at most %d tokens", ErrConfig, u.MaxPrompt)
	}
	requests, course := newCourse(scripts, u, cfg.Service, slices.Max(cfg.Speeds), cfg.Seed)
	if len(requests) == 0 {
		return nil, fmt.Errorf("cannot simulate %d users for %v: %w", u.N, u.Warmup+u.For, errNoTurn)
	}
	s, err := newStudy(requests, cfg, progress)
	if err != nil {
		return nil, err
	}
	s.plan.course = course
	return s, nil
}

// SimulateUsers plays sessions in a closed loop under each of the named policies: the users of all
// policies are the same, their times are not.
func SimulateUsers(ctx context.Context, name string, sessions []trace.Session, u Users, cfg Config, names []string, progress Progress) (*Report, error) {
	s, err := newUserStudy(sessions, u, cfg, progress)
	if err != nil {
		return nil, err
	}
	return s.compare(ctx, name, names)
}

// run simulates one policy under cfg, which may differ from the study's in all but the trace
// and the pages.
func (s *study) run(ctx context.Context, name string, cfg Config) (*Result, error) {
	r, err := simulate(ctx, s.plan, cfg, name, func(n int) { s.progress(name, n, len(s.plan.jobs)) })
	if err != nil {
		return nil, err
	}
	if s.bound == 0 && s.plan.course != nil {
		s.bound = r.arrivals.bound()
	}
	return r.result(), nil
}

func (s *study) summary(name string) Summary {
	p := s.plan
	sum := Summary{Name: name, Requests: len(p.jobs), Span: (p.jobs[len(p.jobs)-1].at - p.jobs[0].at).duration()}
	for i := range p.jobs {
		sum.Input += float64(p.jobs[i].input) / float64(len(p.jobs))
		sum.Output += float64(p.jobs[i].output) / float64(len(p.jobs))
	}
	if p.course == nil {
		sum.Bound = bound(p)
	} else {
		sum.Requests = 0 // of the fastest policy
		sum.Span = p.course.For
	}
	sum.Demand = ratio(sum.Input*float64(sum.Requests)/s.cfg.Service.PrefillTokensPerSecond, sum.Span.Seconds())
	return sum
}

// warn lists the facts that make results mean less than they seem to.
func (r *Report) warn() {
	for _, x := range r.Results {
		if long := x.Refused - x.TurnedAway; long > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %d requests are longer than a worker's KV pool and were refused", x.Policy, long))
		}
		if x.TurnedAway > 0 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: %d requests found its queue of %d full and were refused", x.Policy, x.TurnedAway, mostWaiting))
		}
		if last := r.Trace.Span + time.Minute; x.Span > 2*last {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: the workers fell behind: the last answer came %v after a trace of %v. "+
				"Its times say only that it cannot carry this load", x.Policy, x.Span.Round(time.Second), r.Trace.Span.Round(time.Second)))
		}
	}
}

// Best returns the best policy in hindsight: the lowest mean time to first token among all, the
// all-knowing router left out; nil if there is none.
func (r *Report) Best() *Result {
	return r.least(func(x *Result) time.Duration { return x.TTFT.Mean })
}

// bestP99 is the same by the p99.
func (r *Report) bestP99() *Result {
	return r.least(func(x *Result) time.Duration { return x.TTFT.P99 })
}

func (r *Report) least(of func(*Result) time.Duration) (best *Result) {
	for _, x := range r.Results {
		if x.Policy != Greedy && (best == nil || of(x) < of(best)) {
			best = x
		}
	}
	return best
}

// Advise plays the trace some more times and recommends a deployment in words: number of
// workers, routing or not, number of router replicas, separate pools or not, each with its
// numbers. objective is the time to first token that 99 of 100 requests should keep; 0 is 2 s.
func (r *Report) Advise(ctx context.Context, requests []Request, objective time.Duration, progress Progress) error {
	or(&objective, 2*time.Second)
	s, err := newStudy(requests, r.Config, progress)
	if err != nil {
		return err
	}
	a := &adviser{study: s, ctx: ctx, report: r, objective: objective}
	for _, step := range []func() error{a.size, a.routing, a.replicas, a.pools} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// resultOf returns the result of one policy, or nil.
func resultOf(all []*Result, name string) *Result {
	for _, x := range all {
		if x.Policy == name {
			return x
		}
	}
	return nil
}
