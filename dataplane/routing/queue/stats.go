package queue

import "time"

// Stats are the counters and the present state of a gate.
type Stats struct {
	Waiting int           // requests, now
	Clients int           // with waiting requests
	Oldest  time.Duration // wait of the oldest request
	Models  int           // with full ranks, now or a second ago
	Rate    float64       // requests per second that leave the queue

	Passed           uint64 // requests that waited and got a permit
	Waited           time.Duration
	RefusedFull      uint64
	RefusedDisplaced uint64
	RefusedLate      uint64 // their deadline passed
	RefusedPredicted uint64 // their deadline would have passed
	Gone             uint64 // requests of clients that left
}

// Stats returns them.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st, now := g.finished, g.now()
	st.Models = len(g.models)
	for _, q := range g.models {
		st.Waiting += q.order.Len()
		st.Clients += q.order.Clients()
		st.Rate += q.drain.rate(now)
		if since, ok := q.order.Oldest(); ok {
			st.Oldest = max(st.Oldest, now-since)
		}
	}
	return st
}
