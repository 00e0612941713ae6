package request

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// TestSumsAreOfAllWorkers: each failure counts once, on the side that is at fault, and histograms
// add up by bucket.
func TestSumsAreOfAllWorkers(t *testing.T) {
	m := &Metrics{}
	m.ranks = newRankMetrics(m, func() string { return "kv" })
	m.errors = m.counter("errors_total", "", "status", "reason")
	m.cuts = m.counter("answers_cut_total", "", "worker")
	for _, id := range []string{"a", "b"} {
		s := m.ranks.of(id)
		s.prompt.Add(100)
		s.cached.Add(40)
		s.expected[1].Add(50)
		s.ttft.Observe(.03)
		s.latency.Observe(1000) // beyond the last bound
		for status, n := range map[int]int{200: 9, 404: 1, 429: 2, 500: 3, 401: 4} {
			for range n {
				m.ranks.request(id, status)
			}
		}
		m.cuts.With(prometheus.Labels{"worker": id}).Inc()
	}
	for _, status := range []string{"400", "429", "403", "502", "503"} {
		m.errors.WithLabelValues(status, "x").Inc()
	}
	s := m.Sums()
	assert.Equal(t, []uint64{200, 80, 100}, []uint64{s.PromptTokens, s.HitTokens, s.ExpectedTokens})
	assert.Equal(t, [...]uint64{history.Busy: 5, history.Keys: 9, history.Client: 3, history.Worker: 6, history.Router: 2, history.Cut: 2}, s.Errors)
	assert.Equal(t, uint64(2), s.TTFT.Buckets[3], "from 0.02 to 0.04")
	assert.Equal(t, uint64(2), s.Duration.Buckets[len(s.Duration.Bounds)])
	assert.Equal(t, uint64(0), s.TTFT.Buckets[4], "no bucket counts those below it")
}

// Of the tokens that were to be fetched from KV tiers, those count that the answer reports
// beyond the rank's own overlap.
func TestFetchedTokensAreCounted(t *testing.T) {
	m := &Metrics{}
	m.countOverlap()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	d := routing.Decision{Cached: 100, Fetch: routing.Fetch{Tier: 200, Remote: 300}}
	m.fetched("r", &d, 600)                            // all of it
	m.fetched("r", &d, 150)                            // a part
	m.fetched("r", &d, 20)                             // not even what it was to hold itself
	m.fetched("r", &d, 5000)                           // more than was known
	m.fetched("r", &routing.Decision{Cached: 1}, 5000) // nothing was expected
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		if f.GetName() == "warmpath_overlap_predictions_total" {
			continue
		}
		for _, one := range f.GetMetric() {
			key := []string{f.GetName()}
			for _, l := range one.GetLabel() {
				key = append(key, l.GetValue())
			}
			got[strings.Join(key, " ")] = one.GetCounter().GetValue()
		}
	}
	assert.Equal(t, map[string]float64{
		"warmpath_expected_fetch_tokens_total tier r": 800, "warmpath_expected_fetch_tokens_total peer r": 1200,
		"warmpath_fetched_tokens_total r": 500 + 50 + 500,
	}, got)
}
