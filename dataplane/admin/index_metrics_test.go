package admin

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/radix"
)

// TestIndexMetrics stores beyond the index's bound, and behind an evicted parent, and reads
// /metrics.
func TestIndexMetrics(t *testing.T) {
	x := radix.New(radix.Config{Seed: 1, MaxBytes: 1 << 20})
	w := x.AddWorker()
	for name := range uint64(200) {
		s := radix.Store{Worker: w, Domain: x.Domain(radix.DomainKey{})}
		for i := range uint64(500) {
			s.Engine, s.Blocks = append(s.Engine, name<<16+i+1), append(s.Blocks, radix.Hash(name<<16+i+1))
		}
		require.NoError(t, x.Store(s))
	}
	require.ErrorIs(t, x.Store(radix.Store{Worker: w, HasParent: true, Parent: 500, Engine: []uint64{1}, Blocks: []radix.Hash{1}}), radix.ErrBudget)

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector(func(out sink) { out.index(x.Stats()) }))
	families, err := registry.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				name = append(name, l.GetValue())
			}
			got[strings.Join(name, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	require.Greater(t, got["warmpath_index_evicted_blocks_total"], 50_000.0)
	for _, name := range []string{"index_evicted_blocks_total", "index_blocks", "index_nodes", "index_bytes", "index_predictions"} {
		require.Contains(t, got, "warmpath_"+name)
		delete(got, "warmpath_"+name)
	}
	require.Equal(t, map[string]float64{
		"warmpath_index_max_bytes": 1 << 20, "warmpath_index_domains": 1,
		"warmpath_index_refused_stores_total parent": 1, "warmpath_index_refused_stores_total room": 0,
	}, got)
}
