package store

import "sync"

// Stats is the state of a store. Counters only grow.
type Stats struct {
	PageStats
	EngineStats

	Clears  int64   `json:"clears"`   // of models, for engines here or for peers
	HitRate float64 `json:"hit_rate"` // Found / Asked

	PeerStats

	Hinted int64     `json:"hinted"` // pages in hints
	Hints  HintStats `json:"hints"`
	NIXL   bool      `json:"nixl"` // pages move by NIXL; else by TCP
}

// PageStats counts pages.
type PageStats struct {
	Bytes      int64 `json:"bytes"`       // bound
	Used       int64 `json:"used"`        // bytes of pages
	Pages      int64 `json:"pages"`       // readable
	Pins       int64 `json:"pins"`        // of readers
	Namespaces int   `json:"namespaces"`  // by model, rank and form
	Stored     int64 `json:"stored"`      // pages
	Evicted    int64 `json:"evicted"`     // pages
	Orphaned   int64 `json:"orphaned"`    // pages evicted before a page behind them
	Promoted   int64 `json:"promoted"`    // pages that left probation
	Full       int64 `json:"full"`        // pages without room, as all others were pinned
	SlabsMoved int64 `json:"slabs_moved"` // between page sizes
}

// EngineStats counts the requests and connections of engines.
type EngineStats struct {
	Clients   int64 `json:"clients"`    // connections
	Lookups   int64 `json:"lookups"`    // questions
	Asked     int64 `json:"asked"`      // pages in them
	Found     int64 `json:"found"`      // of these, leading pages that were present
	Read      int64 `json:"read"`       // pages
	ReadBytes int64 `json:"read_bytes"` // bytes of them
	// Bytes a second, measured from a get to its release; 0 is unknown.
	ReadSpeed float64 `json:"read_speed"`
	Missed    int64   `json:"missed"`    // pages to read that were absent
	Abandoned int64   `json:"abandoned"` // batches without commit
	Expired   int64   `json:"expired"`   // leases without release
	Refused   int64   `json:"refused"`   // connections that broke the protocol
	Faults    int64   `json:"faults"`    // connections whose memory differed from the announcement
}

// PeerStats counts pages that move between nodes.
type PeerStats struct {
	Peers       int64 `json:"peers"`        // connected stores of other nodes
	RemoteAsked int64 `json:"remote_asked"` // pages in questions to peers
	RemoteFound int64 `json:"remote_found"` // of these, pages that a peer had
	Pulled      int64 `json:"pulled"`       // pages
	// Of these, pages read by NIXL with CMA or RDMA; the others came by TCP.
	PulledNIXL  int64 `json:"pulled_nixl"`
	PulledBytes int64 `json:"pulled_bytes"` // bytes of them
	// Questions not asked, as computing is faster than the link.
	TooSlow      int64   `json:"too_slow"`
	PullSeconds  float64 `json:"pull_seconds"`  // duration of the pulls
	PullFailures int64   `json:"pull_failures"` // pulls, of up to 128 pages each
	// Pages that an abandoned transfer may still write to.
	Quarantined int64 `json:"quarantined"`
	Untrusted   int64 `json:"untrusted"` // connections that one side did not trust
	Served      int64 `json:"served"`    // pages given to peers
}

// tally is the counts of all parts of a store.
type tally struct {
	mu  sync.Mutex
	sum Stats // but for the numbers that Store.Stats adds; guarded by mu
}

func (t *tally) add(change func(*Stats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.sum)
}

// Stats returns the present counts.
func (s *Store) Stats() Stats {
	var all Stats
	s.pages.counts.add(func(sum *Stats) { all = *sum })
	all.PageStats = s.pages.stats()
	all.Peers, all.ReadSpeed, all.NIXL = int64(len(s.peers.connected())), s.engines.reads.get(), s.nixl.reader() != nil
	if all.Asked > 0 {
		all.HitRate = float64(all.Found) / float64(all.Asked)
	}
	return all
}

func (p *pages) stats() PageStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.index
	n, e := x.stats, x.evictor.stats
	return PageStats{
		Bytes: int64(len(p.arena.data)), Used: n.used, Pages: n.ready, Pins: n.pinned, Namespaces: len(x.spaces.byName), Stored: n.stored, Full: n.full,
		Evicted: e.evicted, Orphaned: e.orphaned, Promoted: e.promoted, SlabsMoved: e.slabsMoved,
	}
}
