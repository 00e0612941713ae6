package store

import "time"

// Stats is what a tier has done and holds. Counters only grow.
type Stats struct {
	Bytes      int64   `json:"bytes"`       // bound
	Used       int64   `json:"used"`        // bytes of pages
	Pages      int64   `json:"pages"`       // readable
	Pins       int64   `json:"pins"`        // pages that readers hold
	Clients    int64   `json:"clients"`     // connections of engines
	Spaces     int     `json:"namespaces"`  // model, rank and form
	Lookups    int64   `json:"lookups"`     // questions of engines
	Asked      int64   `json:"asked"`       // pages in them
	Found      int64   `json:"found"`       // pages of them that were here from the first on
	Read       int64   `json:"read"`        // pages given to engines
	ReadBytes  int64   `json:"read_bytes"`  // bytes of them
	ReadSpeed  float64 `json:"read_speed"`  // bytes a second of late, while an engine copied what it had asked for; 0 is not known
	Missed     int64   `json:"missed"`      // pages that were to be read and were not here
	Stored     int64   `json:"stored"`      // pages
	Evicted    int64   `json:"evicted"`     // pages
	Orphaned   int64   `json:"orphaned"`    // pages evicted before one that follows them
	Promoted   int64   `json:"promoted"`    // uses that made a page a protected one
	Full       int64   `json:"full"`        // pages that found no room, since all are being read
	Abandoned  int64   `json:"abandoned"`   // batches that engines did not confirm
	SlabsMoved int64   `json:"slabs_moved"` // from pages of one size to those of another
	Expired    int64   `json:"expired"`     // reads that were not released in time
	Refused    int64   `json:"refused"`     // connections that broke the protocol
	Faults     int64   `json:"faults"`      // connections whose memory was not what was announced
	Clears     int64   `json:"clears"`      // of models, that engines here asked for or peers told of
	HitRate    float64 `json:"hit_rate"`    // Found / Asked

	Peers        int64     `json:"peers"`         // tiers of other nodes that answer
	RemoteAsked  int64     `json:"remote_asked"`  // pages that peers were asked for
	RemoteFound  int64     `json:"remote_found"`  // pages of them that a peer had
	Pulled       int64     `json:"pulled"`        // pages pulled from peers
	PulledNIXL   int64     `json:"pulled_nixl"`   // pages of them that NIXL has read, by CMA or RDMA; the others came by TCP
	PulledBytes  int64     `json:"pulled_bytes"`  // bytes of them
	TooSlow      int64     `json:"too_slow"`      // questions that a peer was not asked, since computing is faster than its link
	PullSeconds  float64   `json:"pull_seconds"`  // that pulls took
	PullFailures int64     `json:"pull_failures"` // pulls, of up to 128 pages each
	Quarantined  int64     `json:"quarantined"`   // pages that a transfer which was given up may still write to
	Untrusted    int64     `json:"untrusted"`     // connections with peers that did not trust this tier, or that it did not trust
	Served       int64     `json:"served"`        // pages given to peers
	Hinted       int64     `json:"hinted"`        // pages that routers said would be asked for
	Warming      int64     `json:"warming"`       // pages that this tier, being cold, wants of its peers
	Warmed       int64     `json:"warmed"`        // of these, pages it has asked for
	Hints        HintStats `json:"hints"`
	NIXL         bool      `json:"nixl"` // pages move by NIXL; else by TCP
}

// Stats returns the present counts.
func (t *Tier) Stats() Stats {
	t.mu.Lock()
	c, spaces := t.index.stats, len(t.index.names)
	t.mu.Unlock()
	n := &t.counts
	s := Stats{
		Bytes: t.index.slab * int64(len(t.index.slabs)), Used: c.used, Pages: c.ready, Pins: c.pinned, Clients: n.clients.Load(), Spaces: spaces,
		Lookups: n.exists.Load(), Asked: n.existsPages.Load(), Found: n.existsHits.Load(),
		Read: n.getHits.Load(), ReadBytes: n.getBytes.Load(), Missed: n.getPages.Load() - n.getHits.Load(),
		Stored: c.stored, Evicted: c.evicted, Orphaned: c.orphaned, Promoted: c.promoted, Full: c.full, Abandoned: n.setGone.Load(), SlabsMoved: c.slabsMoved,
		Expired: n.expired.Load(), Refused: n.refused.Load(), Faults: n.faults.Load(),
	}
	s.Peers, s.RemoteAsked, s.RemoteFound = int64(len(t.live())), n.asked.Load(), n.elsewhere.Load()
	s.Pulled, s.PulledBytes, s.PullFailures = n.pulled.Load(), n.pulledBytes.Load(), n.pullFailed.Load()
	s.ReadSpeed = t.reads.get()
	s.Clears = n.clears.Load()
	s.TooSlow = n.tooSlow.Load()
	s.PulledNIXL = n.pulledNIXL.Load()
	s.PullSeconds = time.Duration(n.pullTime.Load()).Seconds()
	s.Quarantined, s.Served, s.Hinted, s.NIXL = n.quarantined.Load(), n.served.Load(), n.hinted.Load(), t.taker() != nil
	s.Untrusted = n.untrusted.Load()
	s.Hints = t.hints.stats()
	s.Warming, s.Warmed = n.warming.Load(), n.warmed.Load()
	if s.Asked > 0 {
		s.HitRate = float64(s.Found) / float64(s.Asked)
	}
	return s
}
