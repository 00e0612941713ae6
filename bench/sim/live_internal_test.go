package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

func TestLab(t *testing.T) {
	scale := 1.0
	fmt.Sscan(os.Getenv("LAB_SCALE"), &scale)
	limit := 5 * time.Minute
	if d, err := time.ParseDuration(os.Getenv("LAB_FOR")); err == nil {
		limit = d
	}
	name := os.Getenv("LAB_POLICY")
	if name == "" {
		name = "kv"
	}
	pick, err := policy.New(name, policy.Defaults)
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		file    string
		prefill float64
		cache   int
		speeds  []float64
	}{
		{"tenants", "", 16000, 40_000, nil},
		{"conversation", "/work/shared/data/mooncake_conversation.jsonl", 7000, 1_000_000, nil},
		{"speeds", "/work/shared/data/mooncake_conversation.jsonl", 8000, 1_000_000, []float64{.4, .4, 1}},
		{"bursts", "", 16000, 1_000_000, nil},
		{"agents", "/tmp/fc/agents_all.jsonl", 16000, 1_000_000, nil},
	} {
		if l := os.Getenv("LAB"); l != "" && !strings.Contains(l, c.name) {
			continue
		}
		var all []trace.Request
		if c.file == "" {
			made, err := policies.Synthetic(c.name, 1, 6000)
			require.NoError(t, err)
			all = policies.Blocks(made, 16)
		} else {
			f, err := os.Open(c.file)
			require.NoError(t, err)
			tr, err := trace.Read(f, 3000)
			require.NoError(t, err)
			all = tr.Requests
		}
		if end := slices.IndexFunc(all, func(r trace.Request) bool { return r.At > limit }); end >= 0 {
			all = all[:end]
		}
		for i := range all {
			all[i].Answer, all[i].Output = 0, max(all[i].Output, 1)
		}
		var workers []Config
		for i := range 8 {
			s := 1.0
			if c.speeds != nil {
				s = c.speeds[min(i, len(c.speeds)-1)]
			}
			d := Service{}.withDefaults()
			of := func(d time.Duration) time.Duration { return time.Duration(float64(d) / s) }
			workers = append(workers, Config{CachePages: c.cache / 16, ContextLength: 1 << 20, TimeScale: scale, Service: Service{
				PrefillTokensPerSecond: c.prefill * s, PrefillBase: of(d.PrefillBase), DecodeBase: of(d.DecodeBase), DecodePerRequest: of(d.DecodePerRequest),
				DecodePerToken: of(d.DecodePerToken)}})
		}
		d := policies.Config{}
		d.Service = policies.Service{PrefillTokensPerSecond: c.prefill * scale, PrefillBase: time.Duration(8e6 / scale), DecodeBase: time.Duration(14e6 / scale), DecodePerRequest: time.Duration(60e3 / scale),
			DecodePerToken: time.Duration(17 / scale)}
		d.Rate, d.CacheTokens, d.Speeds = scale, c.cache, c.speeds
		var mean, hits []float64
		for seed := range 5 {
			d.Seed = uint64(seed)
			r, err := policies.Simulate(t.Context(), c.name, policies.Recorded(all), d, []string{name}, nil)
			require.NoError(t, err)
			mean, hits = append(mean, scale*r.Results[0].TTFT.Mean.Seconds()), append(hits, r.Results[0].Hits)
		}
		slices.Sort(mean)
		slices.Sort(hits)
		for _, polled := range []bool{false, true} {
			began := time.Now()
			l := live(t, pick, workers, polled, all)
			fmt.Fprintf(os.Stderr, "%-14s polled=%-5v n=%d live %.3f forecast %.3f [%.3f %.3f] ratio %.3f; p99 %.2f; hits %.1f %.1f  (%v)\n", c.name, polled, len(all), l.mean.Seconds(), mean[2], mean[0], mean[4],
				l.mean.Seconds()/mean[2], l.p99.Seconds(), 100*l.hits, 100*hits[2], time.Since(began).Round(time.Millisecond))
		}
	}
}
