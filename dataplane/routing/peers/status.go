package peers

import (
	"cmp"
	"slices"
	"time"
)

// Status is a group as /status and /metrics show it. Counters are of this router since its
// start.
type Status struct {
	ID    string `json:"id"`    // of this router
	Peers []Peer `json:"peers"` // the others, by ID

	Published      uint64 `json:"published"` // messages
	PublishedBytes uint64 `json:"published_bytes"`
	Failed         uint64 `json:"failed"`    // messages that the bus refused
	Received       uint64 `json:"received"`  // messages of others
	Lost           uint64 `json:"lost"`      // of those, by their numbers
	Stale          uint64 `json:"stale"`     // messages after later ones
	Malformed      uint64 `json:"malformed"` // messages that no router of this version sends
	Forgotten      uint64 `json:"forgotten"` // routers that fell silent
}

// Peer is another router.
type Peer struct {
	ID       string  `json:"id"`
	Started  string  `json:"started"`
	Silence  float64 `json:"silence_seconds"` // since its last message
	InFlight int64   `json:"in_flight"`       // of its requests
	Lost     uint64  `json:"lost"`            // of its messages
}

// Status returns the present state.
func (g *Group) Status() Status {
	c := g.count
	s := Status{
		ID: g.cfg.ID, Peers: []Peer{},
		Published: c.published.Load(), PublishedBytes: c.publishedBytes.Load(), Failed: c.failed.Load(), Received: c.received.Load(),
		Lost: c.lost.Load(), Stale: c.stale.Load(), Malformed: c.malformed.Load(), Forgotten: c.forgotten.Load(),
	}
	g.loads.mu.Lock()
	defer g.loads.mu.Unlock()
	for _, p := range g.loads.peers {
		one := Peer{
			ID: p.id, Started: time.UnixMicro(p.started).UTC().Format(time.RFC3339), Silence: time.Since(p.heard).Seconds(), Lost: p.lost,
		}
		for _, e := range p.ranks {
			one.InFlight += e.told.InFlight
		}
		s.Peers = append(s.Peers, one)
	}
	slices.SortFunc(s.Peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return s
}
