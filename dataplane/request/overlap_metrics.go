package request

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// hitShare is the share of the expected overlap from which an answer counts as a hit.
const hitShare = 0.8

// Results of a comparison of expected with reported overlap.
const (
	overlapExact = iota
	overlapHit   // at least hitShare of it
	overlapMiss
)

var overlapResults = [...]string{overlapExact: "exact", overlapHit: "hit", overlapMiss: "miss"}

// overlapMetrics compare the overlap that a choice expected with the cached tokens that the answer
// reports.
type overlapMetrics struct {
	results            [routing.Answers + 1][len(overlapResults)]prometheus.Counter
	exact, approximate comparison

	fetchExpected *prometheus.CounterVec // worker, rank, from
	fetchedTokens *prometheus.CounterVec // worker, rank
}

type comparison struct{ compared, accurate atomic.Uint64 }

func (c *comparison) counts() Comparison { return Comparison{c.compared.Load(), c.accurate.Load()} }

func newOverlapMetrics(m *Metrics) *overlapMetrics {
	results := m.counter("overlap_predictions_total",
		"Expected against reported overlap: exact, hit (at least 0.8 of the expected) or miss; "+
			"by the source of the expectation.",
		"source", "result")
	o := &overlapMetrics{
		fetchExpected: m.counter("expected_fetch_tokens_total",
			"Prompt tokens that the router expected the worker to fetch, from its node's KV tier or through that from a peer's, "+
				"of answers that reported usage.", "worker", "rank", "from"),
		fetchedTokens: m.counter("fetched_tokens_total",
			"Of the expected_fetch_tokens_total, those that the worker reported as cached "+
				"beyond its own expected overlap.", "worker", "rank"),
	}
	for _, source := range []routing.Source{routing.Events, routing.Answers} {
		for i, result := range overlapResults {
			o.results[source][i] = results.WithLabelValues(source.String(), result)
		}
	}
	return o
}

// compare counts one comparison.
func (o *overlapMetrics) compare(source routing.Source, expected, reported int) {
	c := &o.exact
	if source == routing.Answers {
		c = &o.approximate
	}
	c.compared.Add(1)
	result := overlapMiss
	switch {
	case expected == reported:
		result = overlapExact
	case float64(reported) >= hitShare*float64(expected):
		result = overlapHit
	}
	if result != overlapMiss {
		c.accurate.Add(1)
	}
	o.results[source][result].Inc()
}

// fetched compares the tokens that were to be fetched from KV tiers with an answer's cached tokens.
func (o *overlapMetrics) fetched(d *routing.Decision, cached int) {
	f := &d.Fetch
	if f.Tokens() == 0 {
		return
	}
	url, rank := d.Rank.Labels()
	o.fetchExpected.WithLabelValues(url, rank, "tier").Add(float64(f.Tier))
	o.fetchExpected.WithLabelValues(url, rank, "peer").Add(float64(f.Remote))
	o.fetchedTokens.WithLabelValues(url, rank).Add(float64(d.FetchedOf(cached)))
}
