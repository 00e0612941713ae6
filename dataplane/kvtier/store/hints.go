package store

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

const (
	// hintsAtOnce are worked on at most. One takes half a millisecond, most of it spent waiting for a peer's word, and as long as Config.Ask where
	// that peer hangs: then 160 hints a second are taken and the others dropped, as if they had not been sent.
	hintsAtOnce = 16
	// hintAgain is for how long a hint for the same pages is no news: a router that tries again, or several that were asked the same.
	hintAgain = 2 * time.Second
	// knownHints are remembered for that. More in two seconds may be worked on twice.
	knownHints = 1 << 10
	// hintShare bounds what one hint may bring, in all ranks of the model here: a quarter of the tier. More would push out its own first pages.
	hintShare = 4
)

// hints is what a tier does with the hints of routers. They are worked on in goroutines of their own, which end with Run.
type hints struct {
	seed  maphash.Seed
	slots chan struct{} // capacity hintsAtOnce

	mu     sync.Mutex
	recent [knownHints]recentHint // by what modulo their number; guarded by mu, as is all below
	done   bool
	wg     sync.WaitGroup // Add is called under mu, while done is false

	received, refused, twice, dropped, strange atomic.Int64
	needless, vain, pulled                     atomic.Int64
}

type recentHint struct {
	what uint64
	at   time.Time
}

func newHints() *hints {
	return &hints{seed: maphash.MakeSeed(), slots: make(chan struct{}, hintsAtOnce)}
}

// HintStats is what became of the hints of routers. Counters only grow.
type HintStats struct {
	Received  int64 `json:"received"`
	Refused   int64 `json:"refused"`       // of these, messages that are no hint
	Duplicate int64 `json:"duplicate"`     // for pages that another hint was for, two seconds ago at most
	Dropped   int64 `json:"dropped"`       // while too many were worked on
	Strange   int64 `json:"unknown_model"` // for a model that no engine here has used the tier for
	Needless  int64 `json:"needless"`      // for pages that were here or on their way
	Vain      int64 `json:"vain"`          // for pages that were not, and of which no peer had the first one
	Pulled    int64 `json:"pulled_pages"`  // pages that came because of a hint
}

func (h *hints) stats() HintStats {
	return HintStats{
		Received: h.received.Load(), Refused: h.refused.Load(), Duplicate: h.twice.Load(), Dropped: h.dropped.Load(), Strange: h.strange.Load(),
		Needless: h.needless.Load(), Vain: h.vain.Load(), Pulled: h.pulled.Load(),
	}
}

// Hinted takes a message of package hint and has what it names pulled from peers, as far as it is not here. It owns data from then on, and does
// not wait. What the request becomes does not matter: pages that nobody asks for stay on probation and are the first to go.
func (t *Tier) Hinted(data []byte) {
	h := t.hints
	h.received.Add(1)
	m, err := hint.Parse(data)
	if err != nil {
		h.refused.Add(1)
		t.log.Debug("a router's hint cannot be read", "error", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return
	}
	what, now := maphash.Bytes(h.seed, m.Pages), t.cfg.Now()
	known := &h.recent[what%knownHints]
	if known.what == what && now.Sub(known.at) < hintAgain {
		h.twice.Add(1)
		return
	}
	select {
	case h.slots <- struct{}{}:
	default:
		h.dropped.Add(1)
		return
	}
	*known = recentHint{what, now}
	h.wg.Go(func() {
		t.follow(&m)
		<-h.slots
	})
}

// end waits for the hints that are worked on; no more are taken.
func (h *hints) end() {
	h.mu.Lock()
	h.done = true
	h.mu.Unlock()
	h.wg.Wait()
}

// follow has the pages of a hint brought here.
func (t *Tier) follow(m *hint.Message) {
	spaces := t.spacesOf(string(m.Model), m.PageSize)
	if len(spaces) == 0 {
		t.hints.strange.Add(1)
		return
	}
	var e Expected
	before := 0
	for chain, s := range t.chainsOf(spaces, func(tokens int) []proto.Hash { return proto.PageHashesOf(m.IDs, tokens, string(m.Salt)) }) {
		skip := min(m.Have/s.tokens, len(chain))
		here, ready := t.bring(s.ns, chain, skip, string(m.From))
		before += here
		e.add(len(chain)-skip, ready)
	}
	t.counts.hinted.Add(int64(e.Pages))
	switch before {
	case e.Pages:
		t.hints.needless.Add(1)
	case e.Ready:
		t.hints.vain.Add(1)
	}
}

// chainsOf yields the chain of pages that a hint names in each namespace, cut to what this tier has room for.
func (t *Tier) chainsOf(spaces []modelSpace, hashes func(tokens int) []proto.Hash) func(yield func([]proto.Hash, modelSpace) bool) {
	return func(yield func([]proto.Hash, modelSpace) bool) {
		bytes := 0
		for _, s := range spaces {
			bytes += s.bytes
		}
		most := int(t.cfg.Bytes / hintShare / int64(max(bytes, 1)))
		var chain []proto.Hash
		for i, s := range spaces {
			if i == 0 || s.tokens != spaces[i-1].tokens {
				chain = hashes(s.tokens)
			}
			if !yield(chain[:min(len(chain), most)], s) {
				return
			}
		}
	}
}

// bring has those of a chain's pages from the skip-th on that are not here pulled, if it can from the peer named from. It returns how many were
// here or on their way from there on, and how many are now.
func (t *Tier) bring(ns uint32, chain []proto.Hash, skip int, from string) (here, ready int) {
	wanted := chain[skip:]
	here = t.present(ns, wanted)
	if here == len(wanted) {
		return here, here
	}
	var parent *proto.Hash
	if at := skip + here; at > 0 {
		parent = &chain[at-1]
	}
	return here, here + t.seek(ns, wanted[here:], parent, from)
}

// present returns how many of the pages, from the first on, are here or on their way. It is no use of them: nobody has asked yet.
func (t *Tier) present(ns uint32, hashes []proto.Hash) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range hashes {
		if k := (key{ns, h}); t.index.find(k) == none && t.pulls[k] == nil {
			return i
		}
	}
	return len(hashes)
}

// seek is elsewhere, which asks the peer named from first and, where that has all of it, nobody else.
func (t *Tier) seek(ns uint32, hashes []proto.Hash, parent *proto.Hash, from string) int {
	if p := t.peerNamed(from); p != nil {
		t.peers.mu.Lock()
		ctx := t.peers.ctx // there is one, since there is a live peer
		t.peers.mu.Unlock()
		ctx, cancel := context.WithTimeout(ctx, t.cfg.Ask)
		defer cancel()
		r, ok := t.spaceOf(ns)
		if !ok {
			return 0
		}
		r.hashes = hashes[:min(len(hashes), maxAsked)]
		if n := p.has(ctx, &r); n == len(r.hashes) {
			t.counts.asked.Add(int64(n))
			t.counts.elsewhere.Add(int64(n))
			return t.startPull(p, ns, r.hashes, parent, true)
		}
	}
	return t.elsewhere(ns, hashes, parent, t.cfg.Ask, true)
}

// peerNamed returns a peer that can be asked now, or nil.
func (t *Tier) peerNamed(name string) *peer {
	if name == "" {
		return nil
	}
	for _, p := range t.live() {
		if p.Name == name {
			return p
		}
	}
	return nil
}
