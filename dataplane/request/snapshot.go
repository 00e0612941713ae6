package request

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/dataplane/ingest"
)

// SnapshotStatus describes the snapshots of the index.
type SnapshotStatus = ingest.SnapshotStatus

var (
	descSnapshotWrites   = desc("snapshot_writes_total", "Snapshots of the index written.")
	descSnapshotFailures = desc("snapshot_failures_total", "Snapshots of the index that could not be written or loaded.")
	descSnapshotTime     = desc("snapshot_last_write_timestamp_seconds", "When the last snapshot was taken; 0 before the first.")
	descSnapshotSeconds  = desc("snapshot_write_seconds", "How long the last snapshot took to write.")
	descSnapshotBytes    = desc("snapshot_bytes", "Size of the last snapshot's file.")
	descSnapshotBlocks   = desc("snapshot_blocks", "Block copies in the last snapshot, all workers.")
	descRestoredBlocks   = desc("snapshot_restored_blocks", "Block copies in the snapshot that the router started with.")
	descRestoredSeconds  = desc("snapshot_load_seconds", "How long the snapshot at start took to load.")
)

// snapshotCollector reads the status at each scrape.
type snapshotCollector func() SnapshotStatus

var _ prometheus.Collector = snapshotCollector(nil)

// ShowSnapshots adds snapshots to /metrics. It must come before Run.
func (s *Server) ShowSnapshots(status func() SnapshotStatus) {
	s.metrics.registry.MustRegister(snapshotCollector(status))
}

// Describe implements prometheus.Collector.
func (c snapshotCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c snapshotCollector) Collect(ch chan<- prometheus.Metric) {
	st := c()
	written := 0.0
	if !st.Written.IsZero() {
		written = float64(st.Written.UnixMilli()) / 1000
	}
	for _, m := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{descSnapshotWrites, prometheus.CounterValue, float64(st.Writes)},
		{descSnapshotFailures, prometheus.CounterValue, float64(st.Failures)},
		{descSnapshotTime, prometheus.GaugeValue, written},
		{descSnapshotSeconds, prometheus.GaugeValue, st.WriteSeconds},
		{descSnapshotBytes, prometheus.GaugeValue, float64(st.Bytes)},
		{descSnapshotBlocks, prometheus.GaugeValue, float64(st.Blocks)},
		{descRestoredBlocks, prometheus.GaugeValue, float64(st.RestoredBlocks)},
		{descRestoredSeconds, prometheus.GaugeValue, st.LoadSeconds},
	} {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value)
	}
}
