package selfcheck

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

var start = time.Unix(1_700_000_000, 0)

// evaluated plays traffic under a policy and checks it.
func evaluated(t *testing.T, all traffic, cfg policies.Config, present Choice) *evaluation {
	t.Helper()
	h := newHistory(16<<10, 64<<20, time.Hour)
	for _, e := range all.log(t, start, cfg, present) {
		h.add(&e)
	}
	w, why := h.window(4096, 0)
	require.Empty(t, why)
	pace := &pacer{share: 1}
	pace.begin(t.Context())
	lab := laboratory{options: policy.Defaults, pace: pace}
	c := ranks(cfg)
	var others []Choice
	for _, o := range alternatives(Choice{Policy: kv}, 0) {
		if o != present {
			others = append(others, o)
		}
	}
	e, err := lab.evaluate(t.Context(), w, &c, present, others, nil)
	require.NoError(t, err)
	t.Logf("%v: %d requests of %v: observed %+v, simulated %+v; %s fit %+v (cpu %v)", present, e.requests, e.span, e.observed, e.present, e.why, e.fit, time.Duration(pace.used.Load()))
	for i := range e.others {
		gain, lower, higher := e.gain(&e.others[i])
		t.Logf("  %-20v %.3f p99 %.3f latency %.2f hits %.3f gain %.2f: lower in %d, higher in %d", e.others[i].Choice, e.others[i].TTFT, e.others[i].P99, e.others[i].Latency, e.others[i].Hits, gain, lower, higher)
	}
	return e
}

// TestMatch: the simulation of a window has the times and hits of the engines that answered it,
// whose costs it does not know, under policies that carry the load and under one that collapses.
func TestMatch(t *testing.T) {
	few := policies.Config{Workers: 4, CacheTokens: 200_000, Service: policies.Service{
		PrefillTokensPerSecond: 9000, DecodeBase: 30 * time.Millisecond, PrefillBase: 15 * time.Millisecond,
	}}
	talk := sessions(1, 5*time.Minute, 1.2, 1000, 600, 150, 6, 20*time.Second)
	agents := sessions(2, 8*time.Minute, 0.05, 20_000, 2500, 300, 40, 8*time.Second)
	for name, tc := range map[string]struct {
		traffic traffic
		cfg     policies.Config
		present Choice
		within  float64
	}{
		"chats":               {talk, few, Choice{Policy: kv}, 0.1},
		"chats without queue": {talk, few, Choice{Policy: kv, Without: policy.TermQueue}, 0.1},
		"chats in turns":      {talk, few, Choice{Policy: "round-robin"}, 1},
		"agents":              {agents, policies.Config{Workers: 4, CacheTokens: 500_000}, Choice{Policy: kv}, 0.25},
	} {
		t.Run(name, func(t *testing.T) {
			e := evaluated(t, tc.traffic, tc.cfg, tc.present)
			require.Empty(t, e.why)
			require.InEpsilon(t, e.observed.TTFT, e.present.TTFT, tc.within)
			require.InDelta(t, e.observed.Hits, e.present.Hits, 0.02)
		})
	}
}

// TestMismatch: engines that the simulation cannot explain give no advice.
func TestMismatch(t *testing.T) {
	e := evaluationOf(forecastOf(plain, 1))
	require.Empty(t, e.mismatch())
	e.observed.TTFT = 2.1
	require.Contains(t, e.mismatch(), "mean TTFT")
	e.observed.TTFT = 0.45
	require.Contains(t, e.mismatch(), "mean TTFT")
	e.observed = observed{Streamed: 1, TTFT: 1.2, Hits: 0.8, Counted: true}
	e.present.Hits = 0.5
	require.Contains(t, e.mismatch(), "in caches")
	e.present.Hits = 0.7
	require.Empty(t, e.mismatch())
	e.observed.Hits, e.present.Hits = 0.04, 0.01
	require.Empty(t, e.mismatch(), "few hits are few either way")
}
