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
		gain, better := e.gain(&e.others[i])
		t.Logf("  %-20v %.3f p99 %.3f latency %.2f hits %.3f gain %.2f in %d", e.others[i].Choice, e.others[i].TTFT, e.others[i].P99, e.others[i].Latency, e.others[i].Hits, gain, better)
	}
	return e
}

func TestMatch(t *testing.T) {
	for name, tc := range map[string]struct {
		traffic traffic
		cfg     policies.Config
	}{
		"chats":  {sessions(1, 10*time.Minute, 1.5, 1000, 600, 150, 6, 20*time.Second), policies.Config{Workers: 4, CacheTokens: 200_000, Service: policies.Service{PrefillTokensPerSecond: 9000, DecodeBase: 30 * time.Millisecond, PrefillBase: 15 * time.Millisecond}}},
		"agents": {sessions(2, 15*time.Minute, 0.05, 20_000, 2500, 300, 40, 8*time.Second), policies.Config{Workers: 4, CacheTokens: 500_000, Service: policies.Service{PrefillTokensPerSecond: 16_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, present := range []Choice{{Policy: kv}, {Policy: "round-robin"}, {Policy: kv, Without: policy.TermQueue}, {Policy: "lmetric"}} {
				e := evaluated(t, tc.traffic, tc.cfg, present)
				require.Empty(t, e.why)
			}
		})
	}
}
