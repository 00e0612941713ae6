package sidecar

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nvml"
)

// TestMetricsOfLinksAndTransfers parses the metrics as Prometheus does.
func TestMetricsOfLinksAndTransfers(t *testing.T) {
	agents := func() map[string]nixl.Stats {
		return map[string]nixl.Stats{
			"one": {
				Posted: 12, Completed: 7, Failed: 5, TimedOut: 2, BytesRead: 1 << 20, BytesWritten: 1 << 10, Requests: 9, Pieces: 90,
				Abandoned: 3, AbandonedNow: 1, AbandonedBytes: 4096, Replacements: 2, Down: "why",
			},
			"two": {Completed: 1},
		}
	}
	more := func() map[string]nixl.Stats { return map[string]nixl.Stats{"three": {Completed: 3}} }
	links := func() []cluster.Link {
		return []cluster.Link{
			{To: "a", Path: "rdma", Read: 24e9, Write: 23e9, Latency: 12e-6, At: time.Now().Add(-time.Minute)},
			{To: "b", Path: "tcp", Read: 1e9, Write: 2e9, Latency: 190e-6, Slow: "the same machine, but over TCP", At: time.Now()},
			{To: "c", Path: "unknown", Broken: "nobody answers", At: time.Now()},
		}
	}
	n := startNode(t, Config{
		NoDiscovery: true, NVML: nvml.Config{Library: "/nonexistent/libnvidia-ml.so.1"}, extra: extra{links: links, agents: []func() map[string]nixl.Stats{agents, more}},
	})
	require.Eventually(t, func() bool { return len(n.Report().Links) == 3 }, patience, time.Millisecond)
	status, body := get(t, n, "/metrics")
	require.Equal(t, 200, status, body)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	value := func(name string, labels ...string) float64 {
		for _, m := range families[name].GetMetric() {
			all := make([]string, 0, len(m.GetLabel()))
			for _, l := range m.GetLabel() {
				all = append(all, l.GetName()+"="+l.GetValue())
			}
			if slices.Equal(all, labels) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		t.Errorf("no %s of %v", name, labels)
		return -1
	}
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"transfers_total", []string{"agent=one", "outcome=completed"}, 7},
		{"transfers_total", []string{"agent=one", "outcome=failed"}, 3},
		{"transfers_total", []string{"agent=one", "outcome=timed_out"}, 2},
		{"transfers_total", []string{"agent=two", "outcome=completed"}, 1},
		{"transfers_total", []string{"agent=three", "outcome=completed"}, 3},
		{"bytes_total", []string{"agent=one", "op=read"}, 1 << 20},
		{"bytes_total", []string{"agent=one", "op=write"}, 1 << 10},
		{"requests_total", []string{"agent=one"}, 9},
		{"descriptors_total", []string{"agent=one"}, 90},
		{"quarantined_total", []string{"agent=one"}, 3},
		{"quarantine_transfers", []string{"agent=one"}, 1},
		{"quarantine_bytes", []string{"agent=one"}, 4096},
		{"agents_replaced_total", []string{"agent=one"}, 2},
		{"up", []string{"agent=one"}, 0},
		{"up", []string{"agent=two"}, 1},
	} {
		assert.InDelta(t, tt.want, value("warmpath_node_nixl_"+tt.name, tt.labels...), 0, tt.name)
	}
	for _, tt := range []struct {
		to, path                                 string
		read, write, latency, slow, ok, leastAge float64
	}{{"a", "rdma", 24e9, 23e9, 12e-6, 0, 1, 60}, {"b", "tcp", 1e9, 2e9, 190e-6, 1, 1, 0}, {"c", "unknown", 0, 0, 0, 0, 0, 0}} {
		of := func(name string) float64 { return value("warmpath_node_link_"+name, "path="+tt.path, "to="+tt.to) }
		assert.Equal(t, []float64{tt.read, tt.write, tt.latency, tt.slow, tt.ok},
			[]float64{of("read_bytes_per_second"), of("write_bytes_per_second"), of("latency_seconds"), of("slow"), of("ok")}, tt.to)
		assert.GreaterOrEqual(t, of("age_seconds"), tt.leastAge)
	}
}
