package request

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// ranksOf returns the ranks of workers that nobody has asked yet.
func ranksOf(t *testing.T, urls ...string) []*worker.Rank {
	t.Helper()
	registry := worker.NewRegistry(worker.Config{}, nil)
	for _, url := range urls {
		_, err := registry.Add(url)
		require.NoError(t, err)
	}
	ranks := registry.Snapshot().Ranks
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, registry.Run(ctx))
	return ranks
}

// TestSumsAreOfAllWorkers: each failure counts once, on the side that is at fault, and histograms
// add up by bucket.
func TestSumsAreOfAllWorkers(t *testing.T) {
	m := &Metrics{}
	m.ranks = newRankMetrics(m, func() string { return "kv" })
	m.errors = m.counter("errors_total", "", "status", "reason")
	m.cuts = m.counter("answers_cut_total", "", "worker", "rank")
	for _, rank := range ranksOf(t, "http://a", "http://b") {
		s := m.ranks.of(rank)
		s.prompt.Add(100)
		s.cached.Add(40)
		s.expected[1].Add(50)
		s.generated.Add(7)
		s.ttft.Observe(.03)
		s.latency.Observe(1000) // beyond the last bound
		for status, n := range map[int]int{200: 9, 404: 1, 429: 2, 500: 3, 401: 4} {
			for range n {
				m.ranks.request(rank, status)
			}
		}
		m.cuts.WithLabelValues(rank.Labels()).Inc()
	}
	for _, status := range []string{"400", "429", "403", "502", "503"} {
		m.errors.WithLabelValues(status, "x").Inc()
	}
	s := m.Sums()
	assert.Equal(t, []uint64{200, 80, 100, 14}, []uint64{s.PromptTokens, s.HitTokens, s.ExpectedTokens, s.GeneratedTokens})
	assert.Equal(t, FailureSums{Busy: 5, Keys: 9, Client: 3, Worker: 6, Router: 2, Cut: 2}, s.Failures)
	assert.Equal(t, uint64(2), s.TTFT.Buckets[3], "from 0.02 to 0.04")
	assert.Equal(t, uint64(2), s.Duration.Buckets[len(s.Duration.Bounds)])
	assert.Equal(t, uint64(0), s.TTFT.Buckets[4], "no bucket counts those below it")
}
