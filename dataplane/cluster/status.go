package cluster

import (
	"log/slog"
	"sync/atomic"
)

// Status is how this process stands with NATS.
type Status struct {
	URL        string `json:"url"`
	Embedded   bool   `json:"embedded"`
	Up         bool   `json:"up"`
	Reason     string `json:"reason,omitempty"` // of the last failure, in words; stays while not up
	Reconnects uint64 `json:"reconnects"`
	Skipped    uint64 `json:"skipped"` // records, marks and beats that could not be read
	// Times that NATS's messages came faster than they were read.
	Dropped   uint64 `json:"dropped"`
	Resyncs   uint64 `json:"resyncs"`   // times that the buckets were read whole
	Writes    uint64 `json:"writes"`    // records of ours that were written
	Conflicts uint64 `json:"conflicts"` // times that another process took our name
}

// trouble counts and logs the failures of NATS.
type trouble struct {
	log    *slog.Logger
	url    string                 // of NATS, without secrets
	reason atomic.Pointer[string] // of the last failure
	counts counts
}

type counts struct{ reconnects, skipped, dropped, resyncs, writes, conflicts atomic.Uint64 }

// Status returns it as it is now.
func (c *Cluster) Status() Status {
	s := Status{
		URL: c.URL(), Embedded: c.server != nil, Up: c.View().Up, Reconnects: c.counts.reconnects.Load(), Skipped: c.counts.skipped.Load(),
		Dropped: c.counts.dropped.Load(), Resyncs: c.counts.resyncs.Load(), Writes: c.counts.writes.Load(), Conflicts: c.counts.conflicts.Load(),
	}
	if reason := c.reason.Load(); reason != nil && !s.Up {
		s.Reason = *reason
	}
	return s
}

// noteFailure keeps a failure's words and logs them when they are new.
func (t *trouble) noteFailure(err error) {
	text := err.Error()
	if old := t.reason.Swap(&text); old == nil || *old != text {
		t.log.Warn("cluster: NATS", "url", t.url, "error", err)
	}
}
