package admin

import (
	"github.com/warmpath/warmpath/dataplane/ingest"
)

var (
	descSnapshotWrites   = desc("snapshot_writes_total", "Snapshots of the index written.")
	descSnapshotFailures = desc("snapshot_failures_total",
		"Snapshots of the index that could not be written or loaded.")
	descSnapshotTime = desc("snapshot_last_write_timestamp_seconds",
		"When the last snapshot was taken; 0 before the first.")
	descSnapshotSeconds = desc("snapshot_write_seconds",
		"How long the last snapshot took to write.")
	descSnapshotBytes  = desc("snapshot_bytes", "Size of the last snapshot's file.")
	descSnapshotBlocks = desc("snapshot_blocks",
		"Block copies in the last snapshot, all workers.")
	descRestoredBlocks = desc("snapshot_restored_blocks",
		"Block copies in the snapshot that the router started with.")
	descRestoredSeconds = desc("snapshot_load_seconds",
		"How long the snapshot at start took to load.")
)

func (out sink) snapshot(st ingest.SnapshotStatus) {
	written := 0.0
	if !st.Written.IsZero() {
		written = float64(st.Written.UnixMilli()) / 1000
	}
	out.counter(descSnapshotWrites, float64(st.Writes))
	out.counter(descSnapshotFailures, float64(st.Failures))
	out.gauge(descSnapshotTime, written)
	out.gauge(descSnapshotSeconds, st.WriteSeconds)
	out.gauge(descSnapshotBytes, float64(st.Bytes))
	out.gauge(descSnapshotBlocks, float64(st.Blocks))
	out.gauge(descRestoredBlocks, float64(st.RestoredBlocks))
	out.gauge(descRestoredSeconds, st.LoadSeconds)
}
