package request

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin/history"
	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
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
	m.ranks, m.models = newRankMetrics(m), newModelMetrics(m)
	m.countOverlap()
	m.errors = m.counter("errors_total", "", "status", "reason")
	m.cuts = m.counter("answers_cut_total", "", "worker", "rank")
	ranks := ranksOf(t, "http://a", "http://b")
	m.gone.present = func() []*worker.Rank { return ranks }
	for _, rank := range ranks {
		s := m.ranks.of(rank)
		s.prompt.Add(100)
		s.cached.Add(40)
		m.expected[routing.Events].Add(50)
		model := m.models.of(strings.TrimPrefix(rank.ID(), "http://"))
		model.generated.Add(7)
		model.ttft.Observe(.03)
		model.latency.Observe(1000) // beyond the last bound
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
	assert.Equal(t, history.Errors{history.Busy: 5, history.Keys: 9, history.Client: 3, history.Worker: 6, history.Router: 2, history.Cut: 2}, s.Errors)
	assert.Equal(t, uint64(2), s.TTFT.Buckets[3], "from 0.02 to 0.04")
	assert.Equal(t, uint64(2), s.Duration.Buckets[len(s.Duration.Bounds)])
	assert.Equal(t, uint64(0), s.TTFT.Buckets[4], "no bucket counts those below it")
}

// TestSeriesOfRanksThatAreGone: the series of a worker that is gone leave with time, and the sums do
// not tell of it. A worker that comes back before goes on with its own.
func TestSeriesOfRanksThatAreGone(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		m := &Metrics{}
		m.ranks, m.models = newRankMetrics(m), newModelMetrics(m)
		m.errors = m.counter("errors_total", "", "status", "reason")
		m.cuts = m.counter("answers_cut_total", "", "worker", "rank")
		m.countOverlap()
		ranks := ranksOf(t, "http://a", "http://b")
		present := ranks
		m.gone.present = func() []*worker.Rank { return present }
		answer := func(rank *worker.Rank) {
			s := m.ranks.of(rank)
			s.ok.Inc()
			s.prompt.Add(100)
			m.ranks.request(rank, 500)
			m.cuts.WithLabelValues(rank.Labels()).Inc()
		}
		series := func(url string) (n int) {
			for _, vector := range m.byRank {
				each(vector, func(one *dto.Metric) {
					if label(one, "worker") == url {
						n++
					}
				})
			}
			return n
		}
		answer(ranks[0])
		answer(ranks[1])
		all, before := series("http://a"), m.Sums()
		require.Equal(t, uint64(200), before.PromptTokens)
		for range 3 { // gone for a while, and back
			present = ranks[1:]
			for range 14 {
				require.Equal(t, before, m.Sums())
				time.Sleep(time.Minute)
			}
			present = ranks
			require.Equal(t, before, m.Sums())
		}
		require.Equal(t, all, series("http://a"))
		present = ranks[1:]
		for range 20 {
			require.Equal(t, before, m.Sums())
			time.Sleep(time.Minute)
		}
		require.Zero(t, series("http://a"))
		require.Equal(t, all, series("http://b"))

		answer(ranks[0]) // the end of a request that took as long
		after := m.Sums()
		require.Equal(t, uint64(300), after.PromptTokens)
		require.Equal(t, before.Errors[history.Cut]+1, after.Errors[history.Cut])
		require.Equal(t, before.Errors[history.Worker]+1, after.Errors[history.Worker])
		time.Sleep(20 * time.Minute)
		require.Equal(t, after, m.Sums())
		require.Zero(t, series("http://a"))
	})
}

// Of the tokens that were to be fetched from KV tiers, those count that the answer reports
// beyond the rank's own overlap.
func TestFetchedTokensAreCounted(t *testing.T) {
	m := &Metrics{}
	m.countOverlap()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	rank := ranksOf(t, "http://r")[0]
	d := routing.Decision{Rank: rank, Cached: 100, Fetch: routing.Fetch{Tier: 200, Remote: 300}}
	m.fetched(&d, 600)                                        // all of it
	m.fetched(&d, 150)                                        // a part
	m.fetched(&d, 20)                                         // not even what it was to hold itself
	m.fetched(&d, 5000)                                       // more than was known
	m.fetched(&routing.Decision{Rank: rank, Cached: 1}, 5000) // nothing was expected
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		if !strings.Contains(f.GetName(), "fetch") {
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
		"warmpath_expected_fetch_tokens_total tier": 800, "warmpath_expected_fetch_tokens_total peer": 1200,
		"warmpath_fetched_tokens_total": 500 + 50 + 500,
	}, got)
}
