package sidecar

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/cluster"
	"github.com/warmpath/warmpath/nixl"
	"github.com/warmpath/warmpath/nvml"
)

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
	for _, line := range []string{
		`nixl_transfers_total{agent="one",outcome="completed"} 7`, `nixl_transfers_total{agent="one",outcome="failed"} 3`,
		`nixl_transfers_total{agent="one",outcome="timed_out"} 2`, `nixl_transfers_total{agent="two",outcome="completed"} 1`,
		`nixl_transfers_total{agent="three",outcome="completed"} 3`, `nixl_bytes_total{agent="one",op="read"} 1.048576e+06`,
		`nixl_bytes_total{agent="one",op="write"} 1024`, `nixl_requests_total{agent="one"} 9`, `nixl_descriptors_total{agent="one"} 90`,
		`nixl_quarantined_total{agent="one"} 3`, `nixl_quarantine_transfers{agent="one"} 1`, `nixl_quarantine_bytes{agent="one"} 4096`,
		`nixl_agents_replaced_total{agent="one"} 2`, `nixl_up{agent="one"} 0`, `nixl_up{agent="two"} 1`,
		`link_read_bytes_per_second{path="rdma",to="a"} 2.4e+10`, `link_write_bytes_per_second{path="tcp",to="b"} 2e+09`,
		`link_latency_seconds{path="rdma",to="a"} 1.2e-05`, `link_slow{path="rdma",to="a"} 0`, `link_slow{path="tcp",to="b"} 1`,
		`link_ok{path="tcp",to="b"} 1`, `link_ok{path="unknown",to="c"} 0`,
	} {
		assert.Contains(t, body, "\nwarmpath_node_"+line+"\n")
	}
	assert.Regexp(t, `warmpath_node_link_age_seconds{path="rdma",to="a"} [6-9]\d`, body)
}
