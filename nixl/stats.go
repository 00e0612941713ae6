package nixl

import (
	"errors"
	"sync/atomic"
)

// counters are an agent's numbers, written by its owners.
type counters struct {
	posted, done, failures, timeouts atomic.Uint64
	bytesRead, bytesWritten          atomic.Uint64
	requests, pieces                 atomic.Uint64
	quarantined, handovers           atomic.Uint64
	inQuarantine, bytesInQuarantine  atomic.Int64
}

// Stats is what an agent has done and what state it is in.
type Stats struct {
	Posted, Completed, Failed uint64 // transfers; Failed has the timed out ones too
	TimedOut                  uint64
	BytesRead, BytesWritten   uint64 // of completed transfers
	Requests, Pieces          uint64 // of the library, and descriptors in them, of completed transfers

	Quarantined       uint64 // transfers that ever were
	InQuarantine      int64  // transfers that are
	BytesInQuarantine int64  // that must not be reused yet
	Handovers         uint64 // agents of the library that took another's place
	Generation        uint64
	Down              string // why there is no agent at the moment; "" where there is one
}

// Stats returns the present numbers. It never waits.
func (a *Agent) Stats() Stats {
	c := &a.counters
	s := Stats{
		Posted: c.posted.Load(), Completed: c.done.Load(), Failed: c.failures.Load(), TimedOut: c.timeouts.Load(),
		BytesRead: c.bytesRead.Load(), BytesWritten: c.bytesWritten.Load(), Requests: c.requests.Load(), Pieces: c.pieces.Load(),
		Quarantined: c.quarantined.Load(), InQuarantine: c.inQuarantine.Load(), BytesInQuarantine: c.bytesInQuarantine.Load(),
		Handovers: c.handovers.Load(), Generation: a.generation.Load(),
	}
	if o := a.present.Load(); o != nil {
		if d, ok := o.engine.(down); ok {
			s.Down = d.err.Error()
		}
	}
	return s
}

func (c *counters) completed(t *Transfer) {
	c.done.Add(1)
	c.requests.Add(uint64(t.times.Requests))
	c.pieces.Add(uint64(t.times.Pieces))
	if t.op == Read {
		c.bytesRead.Add(t.bytes)
	} else {
		c.bytesWritten.Add(t.bytes)
	}
}

func (c *counters) failed(reason error) {
	c.failures.Add(1)
	if errors.Is(reason, ErrTimeout) {
		c.timeouts.Add(1)
	}
}
