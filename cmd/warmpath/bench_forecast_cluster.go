package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// forecastCase is a trace and the workers that serve it.
type forecastCase struct {
	name, what string
	workload   string // of package policies, where no file is given
	prefill    float64
	cache      int       // tokens
	speeds     []float64 // of each worker; nil: all equal
}

const (
	forecastPage    = 16
	forecastWorkers = 8
	// mostArrivals is more than any case has a second.
	mostArrivals = 30
)

// forecastCases keep the workers 30 to 80 % busy.
var forecastCases = []forecastCase{
	{name: "conversation", what: "chats that grow by turns, behind 20 system prompts", workload: "conversations", prefill: 7_000, cache: 1_000_000},
	{name: "agents", what: "tool loops: long prompts of which most was there before", workload: "agents", prefill: 16_000, cache: 1_000_000},
	{name: "tenants", what: "320 prompts of 5,000 tokens, of which all pools together hold a fifth", workload: "tenants", prefill: 16_000, cache: 40_000},
	{
		name: "speeds", what: "the conversation, with two of eight workers at 0.4 of the speed", workload: "conversations", prefill: 8_000, cache: 1_000_000,
		speeds: []float64{0.4, 0.4, 1, 1, 1, 1, 1, 1},
	},
	{name: "bursts", what: "40 requests at once, then none for a while", workload: "bursts", prefill: 16_000, cache: 1_000_000},
}

// service is the work of a worker at speed 1. Times of tokens shrink as their number grows, so
// that both factors cancel.
func (o *forecastOptions) service(c *forecastCase) policies.Service {
	n := float64(o.tokens)
	of := func(d time.Duration) time.Duration { return time.Duration(math.Round(float64(d) / n)) }
	return policies.Service{
		PrefillTokensPerSecond: c.prefill * n, PrefillBase: 8 * time.Millisecond, ChunkedPrefill: 8192 * o.tokens,
		DecodeBase: of(14 * time.Millisecond), DecodePerRequest: of(60 * time.Microsecond), DecodePerToken: of(of(17 * time.Nanosecond)), MaxRunning: 64,
	}
}

// simulated is the configuration of the simulation, at the speed of the measurement: a constant
// of the router weighs as much in both.
func (o *forecastOptions) simulated(c *forecastCase) policies.Config {
	s := o.service(c)
	of := func(d time.Duration) time.Duration { return time.Duration(math.Round(float64(d) / o.timeScale)) }
	s.PrefillTokensPerSecond *= o.timeScale
	s.PrefillBase, s.DecodeBase, s.DecodePerRequest, s.DecodePerToken = of(s.PrefillBase), of(s.DecodeBase), of(s.DecodePerRequest), of(s.DecodePerToken)
	cfg := policies.Config{
		Workers: forecastWorkers, Speeds: c.speeds, Service: s, PageSize: forecastPage * o.tokens, CacheTokens: c.cache * o.tokens, Rate: o.timeScale,
	}
	return cfg
}

// forecastCluster is a case's workers and a router in this process.
type forecastCluster struct {
	benchCluster
	*simulation
	inside float64 // at the end: mean time to first token within the workers, in their seconds
}

// URL implements replay.Cluster.
func (c *forecastCluster) URL() string { return c.benchCluster.URL() }

// Close implements replay.Cluster.
func (c *forecastCluster) Close() error {
	n, sum := 0, 0.0
	for _, w := range c.sims {
		requests, all := w.FirstTokens()
		n, sum = n+requests, sum+all.Seconds()
	}
	c.inside = sum / float64(max(n, 1))
	return c.benchCluster.Close()
}

// start runs a case's workers and a router.
func (o *forecastOptions) start(ctx context.Context, c *forecastCase, name string) (*forecastCluster, error) {
	cfg := router.Config{
		Listen: "127.0.0.1:0", Policy: config.Policy{Name: name}, Version: thisBuild().version, Log: quietLogger(),
		// The workers are in this busy process: a slow probe means nothing.
		Probes: config.Probes{Timeout: time.Minute, HangAfter: time.Hour},
	}
	cl := &simulation{}
	for i := range forecastWorkers {
		if err := cl.add(1, o.worker(c, i), "", &cfg.Sources.Workers); err != nil {
			cl.abandon()
			return nil, err
		}
	}
	var err error
	if cl.router, err = router.New(cfg); err != nil {
		cl.abandon()
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &forecastCluster{benchCluster{url: "http://" + cl.router.Addr(), stop: stop, done: make(chan error, 1)}, cl, 0}
	go func() { b.done <- cl.run(running) }()
	if err := cl.waitReady(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// worker is the configuration of a case's worker i.
func (o *forecastOptions) worker(c *forecastCase, i int) sim.Config {
	s, speed := o.service(c), 1.0
	if len(c.speeds) > 0 {
		speed = c.speeds[min(i, len(c.speeds)-1)]
	}
	of := func(d time.Duration) time.Duration { return time.Duration(math.Round(float64(d) / speed)) }
	cfg := sim.Config{
		PageSize: forecastPage * o.tokens, CachePages: c.cache / forecastPage, MaxRunning: s.MaxRunning, ContextLength: c.cache * o.tokens,
		TimeScale: o.timeScale, Log: quietLogger(),
		Service: sim.Service{
			PrefillTokensPerSecond: s.PrefillTokensPerSecond * speed, PrefillBase: of(s.PrefillBase), ChunkedPrefill: s.ChunkedPrefill,
			DecodeBase: of(s.DecodeBase), DecodePerRequest: of(s.DecodePerRequest), DecodePerToken: of(s.DecodePerToken),
		},
	}
	if o.polled {
		cfg.Load = "off"
	}
	return cfg
}
