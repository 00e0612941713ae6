package sim

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/trace"
)

// played is the result of requests on one rank.
type played struct {
	mean, p99 time.Duration // to the first token
	hits      float64
}

// play sends the requests to a rank at their times.
func play(t *testing.T, cfg Config, all []trace.Request) (p played) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		cfg := cfg.withDefaults()
		k := newRank(0, &cfg, newFaults(), nil, nil)
		go k.run(ctx)
		began := time.Now()
		sent := make([]*request, len(all))
		for i := range all {
			time.Sleep(time.Until(began.Add(all[i].At)))
			sent[i] = requestOf(i, &all[i])
			k.submit(sent[i])
		}
		var times []time.Duration
		cached, prompts := 0, 0
		for i, r := range sent {
			for r.current().reason.kind == "" {
				time.Sleep(time.Second)
			}
			times = append(times, r.current().times.first.Sub(began.Add(all[i].At)))
			cached, prompts = cached+r.current().cached, prompts+len(r.prompt)
		}
		slices.Sort(times)
		for _, d := range times {
			p.mean += d / time.Duration(len(times))
		}
		p.p99, p.hits = times[len(times)*99/100], float64(cached)/float64(prompts)
	})
	return p
}

// requestOf is a recorded request with a token for each place of each block.
func requestOf(i int, from *trace.Request) *request {
	r := &request{id: fmt.Sprint(i), budget: from.Output, stop: stopRules{ignoreEOS: true}, wake: make(chan struct{}, 1)}
	for at := range from.Input {
		r.prompt = append(r.prompt, uint32(mix(from.IDs[at/from.Block]+uint64(at%from.Block))>>40)|1<<24)
	}
	r.logFrom = len(r.prompt)
	r.plan()
	return r
}

// TestForecast compares a rank with the simulation of package policies, which operators plan with.
func TestForecast(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  float64
		cache int
	}{{"tenants", 0.08, 40_000}, {"tenants", 0.1, 80_000}, {"documents", 0.1, 200_000}, {"documents", 0.1, 100_000}, {"conversations", 0.12, 200_000}, {"bursts", 0.12, 1_000_000}, {"agents", 0.1, 100_000}} {
		made, err := policies.Synthetic(c.name, 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		all := policies.Blocks(made, 16)
		slices.SortStableFunc(all, func(a, b trace.Request) int { return cmp.Compare(a.At, b.At) })
		for i := range all {
			all[i].At = time.Duration(float64(all[i].At) / c.rate)
		}
		live := play(t, Config{CachePages: c.cache / 16, ContextLength: 1 << 20}, all)
		r, err := policies.Simulate(t.Context(), c.name, policies.Recorded(all), policies.Config{Workers: 1, CacheTokens: c.cache}, []string{"round-robin"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := r.Results[0]
		fmt.Fprintf(os.Stderr, "%s %d: mean %v forecast %v  %.3f; p99 %v %v; hits %.2f %.2f\n", c.name, c.cache, live.mean, f.TTFT.Mean, float64(live.mean)/float64(f.TTFT.Mean),
			live.p99, f.TTFT.P99, 100*live.hits, 100*f.Hits)
	}
}
