package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// fetchMetrics say how far answers follow what choices reckoned to come from KV tiers.
type fetchMetrics struct {
	expected *prometheus.CounterVec // worker, from
	came     *prometheus.CounterVec // worker
}

func newFetchMetrics(counter func(name, help string, labels ...string) *prometheus.CounterVec) fetchMetrics {
	return fetchMetrics{
		expected: counter("expected_fetch_tokens_total",
			"Prompt tokens that the router expected the worker to fetch, from its node's KV tier or by it from a peer's, of answers that reported usage.", "worker", "from"),
		came: counter("fetched_tokens_total",
			"Of the expected_fetch_tokens_total, those that the worker reported as cached, beyond what it was expected to hold itself.", "worker"),
	}
}

// answered compares what was to be fetched with an answer's cached tokens.
func (m *fetchMetrics) answered(id string, d *routing.Decision, cached int) {
	f := &d.Fetch
	if f.Tokens() == 0 {
		return
	}
	m.expected.WithLabelValues(id, "tier").Add(float64(f.Tier))
	m.expected.WithLabelValues(id, "peer").Add(float64(f.Remote))
	m.came.WithLabelValues(id).Add(float64(d.FetchedOf(cached)))
}
