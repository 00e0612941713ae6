package queue

import "time"

// Stats is what a gate has done, and what it does now.
type Stats struct {
	Waiting int           // requests, now
	Clients int           // of so many clients
	Oldest  time.Duration // how long the first of them has waited
	Models  int           // whose ranks are, or just were, all full
	Rate    float64       // requests a second that leave the queue, of late

	Passed           uint64 // requests that waited and got a place
	Waited           time.Duration
	RefusedFull      uint64
	RefusedDisplaced uint64
	RefusedLate      uint64
	Gone             uint64 // requests whose client left
}

// Stats returns the counts now.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st, now := g.finished, g.now()
	st.Models = len(g.pools)
	for _, p := range g.pools {
		st.Waiting += p.order.Len()
		st.Clients += p.order.Clients()
		st.Rate += p.drain.rate(now)
		if since, ok := p.order.Oldest(); ok {
			st.Oldest = max(st.Oldest, now-since)
		}
	}
	return st
}
