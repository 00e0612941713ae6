package request

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
)

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
