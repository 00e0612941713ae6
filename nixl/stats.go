package nixl

import (
	"errors"
	"sync"
)

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

// counters are an agent's numbers, written by its executors.
type counters struct {
	mu  sync.Mutex
	sum Stats // without Down; guarded by mu
}

func (c *counters) add(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.sum)
}

func (c *counters) complete(t *Transfer) {
	c.add(func(s *Stats) {
		s.Completed++
		s.Requests += uint64(t.times.Requests)
		s.Pieces += uint64(t.times.Pieces)
		if t.op == Read {
			s.BytesRead += t.bytes
		} else {
			s.BytesWritten += t.bytes
		}
	})
}

func (c *counters) fail(reason error) {
	c.add(func(s *Stats) {
		s.Failed++
		if errors.Is(reason, ErrTimeout) {
			s.TimedOut++
		}
	})
}

func (c *counters) abandon(t *Transfer) {
	c.add(func(s *Stats) {
		s.Abandoned++
		s.AbandonedNow++
		s.AbandonedBytes += int64(t.bytes)
	})
}

func (c *counters) settle(t *Transfer) {
	c.add(func(s *Stats) {
		s.AbandonedNow--
		s.AbandonedBytes -= int64(t.bytes)
	})
}
