package policies

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Outcome is the answer to one request of a trace.
type Outcome struct {
	TTFT    time.Duration
	Latency time.Duration // until the last token
	Cached  int           // prompt tokens found in a cache, host memory included
	Refused bool          // too long for a worker's pool, or turned away; the other fields are 0
}

// Player plays one trace under several policies and returns the answer to each request, for a
// caller that compares them one by one and shares its processor with others.
type Player struct{ study *study }

// NewPlayer prepares a trace, which must be in the order of its arrivals. pace is called before
// each step of the preparation and of all plays; it may sleep, and its error ends the call.
func NewPlayer(trace []Request, cfg Config, pace func() error) (*Player, error) {
	for i := range trace[:max(len(trace)-1, 0)] {
		if trace[i].At > trace[i+1].At {
			return nil, fmt.Errorf("cannot play request %d: %w: it comes before the one ahead of it", i+1, ErrConfig)
		}
	}
	if len(trace) == 0 {
		return nil, errors.New("policies: cannot play an empty trace")
	}
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.pace = pace
	p, err := newPacedPlan(trace, cfg.PageSize, cfg.Rate, cfg.Spread, pace)
	if err != nil {
		return nil, err
	}
	return &Player{&study{cfg: cfg, plan: p}}, nil
}

// Play returns the answers under a policy, in the order of the trace. change, unless it is nil,
// changes settings for this play: all but those of the trace, the page size and Rate.
func (p *Player) Play(ctx context.Context, name string, change func(*Config)) ([]Outcome, error) {
	cfg := p.study.cfg
	if change != nil {
		change(&cfg)
		if err := cfg.check(); err != nil {
			return nil, err
		}
	}
	s, err := simulate(ctx, p.study.plan, cfg, name, func(int) {})
	if err != nil {
		return nil, fmt.Errorf("cannot play %s: %w", name, err)
	}
	out := make([]Outcome, len(s.tasks))
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.worker < 0 {
			out[i].Refused = true
			continue
		}
		out[i] = Outcome{
			TTFT: (t.first - t.arrived).duration(), Latency: (t.ended - t.arrived).duration(), Cached: t.cached + t.hosted,
		}
	}
	return out, nil
}
