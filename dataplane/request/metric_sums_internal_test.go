package request

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/admin/history"
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
