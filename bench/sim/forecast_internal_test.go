//go:build !race || soak

// Statistics on the fake clock: the race detector finds nothing there that the other tests do not,
// and takes six times as long.

package sim

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// play sends the requests to one rank at their times.
func play(t *testing.T, cfg Config, all []trace.Request) (p played) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg := cfg.withDefaults()
		k := newRank(0, &cfg, newFaults(), nil, nil)
		go k.run(ctx)
		began := time.Now()
		sent, times := make([]*request, len(all)), make([]time.Duration, len(all))
		for i := range all {
			time.Sleep(time.Until(began.Add(all[i].At)))
			sent[i] = requestOf(i, &all[i])
			k.submit(sent[i])
		}
		for i, r := range sent {
			for r.current().reason.kind == "" {
				time.Sleep(time.Second)
			}
			times[i] = r.current().times.first.Sub(began.Add(all[i].At))
		}
		p = playedOf(times, sent)
	})
	return p
}

// made is a workload of package policies, with arrivals at a multiple of its rate. No answer is
// part of a later prompt: a simulated rank makes up others.
func made(t *testing.T, name string, n int, rate float64) []trace.Request {
	t.Helper()
	some, err := policies.Synthetic(name, 1, n)
	require.NoError(t, err)
	all := policies.Blocks(some, 16)
	for i := range all {
		all[i].At = time.Duration(float64(all[i].At) / rate)
	}
	return all
}

// TestRankAsForecast compares a rank with the simulation of package policies, which operators plan
// with.
func TestRankAsForecast(t *testing.T) {
	cases := []struct {
		name  string
		rate  float64
		cache int
	}{
		{"tenants", 0.08, 40_000}, {"conversations", 0.12, 200_000}, {"tenants", 0.1, 80_000}, {"documents", 0.1, 200_000}, {"agents", 0.1, 100_000},
	}
	for _, c := range cases[:min(forecasts, len(cases))] {
		all := made(t, c.name, 600, c.rate)
		live := play(t, Config{CachePages: c.cache / 16, ContextLength: 1 << 20}, all)
		told := forecast(t, all, policies.Config{Workers: 1, CacheTokens: c.cache}, "round-robin")
		assert.InEpsilon(t, told.mean.Seconds(), live.mean.Seconds(), 0.02, "mean TTFT, %s in %d", c.name, c.cache)
		assert.InDelta(t, told.hits, live.hits, 0.01, "hits, %s in %d", c.name, c.cache)
	}
}

// forecast simulates the requests, and returns the median of five draws of random ties.
func forecast(t *testing.T, all []trace.Request, cfg policies.Config, policy string) played {
	t.Helper()
	var mean []time.Duration
	var hits []float64
	for seed := range uint64(5) {
		cfg.Seed = seed
		r, err := policies.Simulate(t.Context(), "made", policies.Recorded(all), cfg, []string{policy}, nil)
		require.NoError(t, err)
		mean, hits = append(mean, r.Results[0].TTFT.Mean), append(hits, r.Results[0].Hits)
	}
	slices.Sort(mean)
	slices.Sort(hits)
	return played{mean: mean[2], hits: hits[2]}
}

// TestLiveAsForecast compares the router in front of simulated ranks with the simulation of both.
func TestLiveAsForecast(t *testing.T) {
	slow := []float64{0.4, 0.4, 1}
	cases := []struct {
		name   string
		rate   float64
		cache  int
		speeds []float64
		polled bool
	}{
		{"tenants", 1, 40_000, nil, false},
		{"documents", 1, 200_000, slow, true},
		{"tenants", 1, 40_000, nil, true},
		{"documents", 1, 200_000, slow, false},
		{"agents", 1, 200_000, nil, false},
		{"conversations", 2, 200_000, nil, false},
		{"bursts", 1, 1_000_000, nil, true},
	}
	for _, c := range cases[:min(forecasts, len(cases))] {
		all := made(t, c.name, 600, c.rate)
		var workers []Config
		for i := range 8 {
			speed := 1.0
			if len(c.speeds) > 0 {
				speed = c.speeds[min(i, len(c.speeds)-1)]
			}
			workers = append(workers, Config{CachePages: c.cache / 16, ContextLength: 1 << 20, Service: Service{}.withDefaults().times(speed)})
		}
		pick := policy.KV{Options: policy.Defaults}
		p := live(t, pick, workers, c.polled, 0, all)
		mean, hits := p.mean.Seconds(), p.hits
		told := forecast(t, all, policies.Config{CacheTokens: c.cache, Speeds: c.speeds}, "kv")
		t.Logf("%s polled %v: mean %.3f hits %.3f forecast %.3f %.3f", c.name, c.polled, mean, hits, told.mean.Seconds(), told.hits)
		assert.InEpsilon(t, told.mean.Seconds(), mean, 0.1, "mean TTFT, %s, polled %v", c.name, c.polled)
		assert.InDelta(t, told.hits, hits, 0.02, "hits, %s, polled %v", c.name, c.polled)
	}
}

// times is the service of a worker that is faster by a factor.
func (s Service) times(speed float64) Service {
	of := func(d time.Duration) time.Duration { return time.Duration(math.Round(float64(d) / speed)) }
	s.PrefillTokensPerSecond *= speed
	s.PrefillBase, s.DecodeBase, s.DecodePerRequest, s.DecodePerToken = of(s.PrefillBase), of(s.DecodeBase), of(s.DecodePerRequest), of(s.DecodePerToken)
	return s
}

// TestLiveIsFreeOfScale: engines four times as fast with arrivals four times as dense give the same
// results in their own time, and so do eight times the tokens at eight times the speed in tokens.
// Answers have one token there: an engine makes more one at a time at any scale. Chance of ties is 3 %
// of the mean of 600 requests.
func TestLiveIsFreeOfScale(t *testing.T) {
	for _, name := range []string{"tenants"} {
		all, cache := made(t, name, 600, 1), 40_000
		cfg := Config{CachePages: cache / 16, ContextLength: 1 << 20, Service: Service{}.withDefaults(), PageSize: 16}
		fast := cfg
		fast.TimeScale = 4
		large, short, many := cfg, slices.Clone(all), slices.Clone(all)
		large.PageSize, large.Service = 8*16, cfg.Service.tokens(8)
		for i := range many {
			short[i].Output = 1
			many[i].Input, many[i].Output, many[i].Block = 8*all[i].Input, 1, 8*all[i].Block
		}
		for _, polled := range []bool{true, false}[:scaledLoads] {
			play := func(cfg Config, all []trace.Request) played {
				return live(t, policy.KV{Options: policy.Defaults}, slices.Repeat([]Config{cfg}, 8), polled, 1, all)
			}
			same := func(what string, one, other played) {
				t.Helper()
				t.Logf("%s, %s, polled %v: mean %v and %v, hits %.3f and %.3f", name, what, polled, one.mean, other.mean, one.hits, other.hits)
				assert.InEpsilon(t, one.mean.Seconds(), other.mean.Seconds(), 0.08, "mean TTFT, %s, %s, polled %v", name, what, polled)
				assert.InDelta(t, one.hits, other.hits, 0.03, "hits, %s, %s, polled %v", name, what, polled)
			}
			same("times by four", play(cfg, all), play(fast, all))
			same("tokens by eight", play(cfg, short), play(large, many))
		}
	}
}

// tokens is the service of a worker that computes so many times the tokens in the same time.
func (s Service) tokens(n int) Service {
	s.PrefillTokensPerSecond *= float64(n)
	s.ChunkedPrefill *= n
	return s
}
