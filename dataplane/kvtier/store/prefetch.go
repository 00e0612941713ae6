package store

import (
	"hash/maphash"
	"sync"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// prefetchShare bounds the pages of one hint to a quarter of the store, over all ranks of the
// model. More would evict its own first pages.
const prefetchShare = 4

// prefetcher pulls pages that engines are expected to ask for.
type prefetcher struct {
	cfg    *Config
	pages  *pages
	peers  *peerClient
	seed   maphash.Seed
	slots  chan struct{} // capacity maxHints
	counts *tally

	mu     sync.Mutex
	recent [recentHints]recentHint // by hash modulo recentHints; guarded by mu
	done   bool                    // guarded by mu
	wg     sync.WaitGroup          // Add is called under mu, while done is false
}

// end waits for the hints at work, and takes no more.
func (f *prefetcher) end() {
	f.mu.Lock()
	f.done = true
	f.mu.Unlock()
	f.wg.Wait()
}

// Hint announces a request over HTTP. Routers send pull hints instead: see package hint.
type Hint struct {
	Model     string   `json:"model"`                // as the engine names it; "" is any
	InputIDs  []uint32 `json:"input_ids,omitempty"`  // tokens of the prompt
	CacheSalt string   `json:"cache_salt,omitempty"` // of the request
}

// Expected is the outcome of a hint, over all ranks of the model on this node.
type Expected struct {
	Namespaces int `json:"namespaces"` // of the model
	Pages      int `json:"pages"`      // of the hint
	Ready      int `json:"ready"`      // of these, leading pages that are present or being pulled
}

// pull has the absent pages of a hint pulled. It waits for the peers' answers, not for the pages.
// before is the number of leading pages that were present or being pulled already.
func (f *prefetcher) pull(m *hint.Message) (e Expected, before int) {
	spaces := f.pages.ofModel(string(m.Model), m.PageSize)
	bytes := 1
	for _, s := range spaces {
		bytes += s.bytes
	}
	most := int(f.cfg.Bytes / prefetchShare / int64(bytes))
	var chain []proto.Hash
	for i, s := range spaces {
		if i == 0 || s.pageSize != spaces[i-1].pageSize {
			chain = proto.PageHashesOf(m.IDs, s.pageSize, string(m.Salt))
			chain = chain[:min(len(chain), most)]
		}
		skip := min(m.Have/s.pageSize, len(chain))
		present, ready := f.pullAbsent(s.ns, chain, skip, string(m.From))
		before += present
		e.Namespaces++
		e.Pages += len(chain) - skip
		e.Ready += ready
	}
	f.counts.add(func(s *Stats) { s.Hinted += int64(e.Pages) })
	return e, before
}

// pullAbsent has the absent pages of a chain from the skip-th on pulled, if possible from the named
// peer. It returns the numbers of leading pages from there on that were present or being pulled
// before, and that are now.
func (f *prefetcher) pullAbsent(ns uint32, chain []proto.Hash, skip int, from string) (before, ready int) {
	wanted := chain[skip:]
	before = f.present(ns, wanted)
	if before == len(wanted) {
		return before, before
	}
	var parent *proto.Hash
	if at := skip + before; at > 0 {
		parent = &chain[at-1]
	}
	return before, before + f.peers.findAt(from, ns, wanted[before:], parent)
}

// present returns the number of leading pages that are present or being pulled. That is no use of
// them, as no engine has asked yet.
func (f *prefetcher) present(ns uint32, hashes []proto.Hash) int {
	n := 0
	for {
		// A pull ends after its pages are present, so this order misses none.
		more := f.peers.incoming.leading(ns, hashes[n:])
		more += f.pages.holds(ns, hashes[n+more:])
		if more == 0 {
			return n
		}
		n += more
	}
}
