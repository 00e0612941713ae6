package request

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// Of what was expected to come from tiers, what an answer reports beyond the rank's own counts, and no more.
func TestFetchedTokensAreCounted(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newFetchMetrics(func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	})
	d := routing.Decision{Cached: 100, Fetch: routing.Fetch{Tier: 200, Remote: 300}}
	m.answered("r", &d, 600)                            // all of it
	m.answered("r", &d, 150)                            // a part
	m.answered("r", &d, 20)                             // not even what it was to hold itself
	m.answered("r", &d, 5000)                           // more than was known
	m.answered("r", &routing.Decision{Cached: 1}, 5000) // nothing was expected
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, one := range f.GetMetric() {
			key := []string{f.GetName()}
			for _, l := range one.GetLabel() {
				key = append(key, l.GetValue())
			}
			got[strings.Join(key, " ")] = one.GetCounter().GetValue()
		}
	}
	assert.Equal(t, map[string]float64{
		"expected_fetch_tokens_total tier r": 800, "expected_fetch_tokens_total peer r": 1200, "fetched_tokens_total r": 500 + 50 + 500,
	}, got)
}
