package nixl

import (
	"errors"
	"sync/atomic"
)

// counters are an agent's numbers, written by its executors.
type counters struct {
	posted, completed, failed, timedOut atomic.Uint64
	bytesRead, bytesWritten             atomic.Uint64
	requests, pieces                    atomic.Uint64
	abandoned, replacements             atomic.Uint64
	abandonedNow, abandonedBytes        atomic.Int64
}

// Stats counts an agent's transfers and tells its state.
type Stats struct {
	Posted, Completed, Failed uint64 // transfers; Failed includes TimedOut
	TimedOut                  uint64
	BytesRead, BytesWritten   uint64 // of completed transfers
	Requests, Pieces          uint64 // library requests and descriptors of completed transfers

	Abandoned      uint64 // transfers given up while their bytes could still move
	AbandonedNow   int64  // those that have not settled
	AbandonedBytes int64  // memory that must not be reused because of them
	Replacements   uint64 // library agents that replaced a predecessor
	Down           string // the reason why there is no library agent; "" where there is one
}

// snapshot fills the counted fields.
func (c *counters) snapshot() Stats {
	return Stats{
		Posted: c.posted.Load(), Completed: c.completed.Load(),
		Failed: c.failed.Load(), TimedOut: c.timedOut.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(),
		Requests: c.requests.Load(), Pieces: c.pieces.Load(),
		Abandoned: c.abandoned.Load(), AbandonedNow: c.abandonedNow.Load(),
		AbandonedBytes: c.abandonedBytes.Load(), Replacements: c.replacements.Load(),
	}
}

func (c *counters) complete(t *Transfer) {
	c.completed.Add(1)
	c.requests.Add(uint64(t.times.Requests))
	c.pieces.Add(uint64(t.times.Pieces))
	if t.op == Read {
		c.bytesRead.Add(t.bytes)
	} else {
		c.bytesWritten.Add(t.bytes)
	}
}

func (c *counters) fail(reason error) {
	c.failed.Add(1)
	if errors.Is(reason, ErrTimeout) {
		c.timedOut.Add(1)
	}
}

func (c *counters) abandon(t *Transfer) {
	c.abandoned.Add(1)
	c.abandonedNow.Add(1)
	c.abandonedBytes.Add(int64(t.bytes))
}

func (c *counters) settle(t *Transfer) {
	c.abandonedNow.Add(-1)
	c.abandonedBytes.Add(-int64(t.bytes))
}
