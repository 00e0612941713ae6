package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// prefetchShare bounds the pages of one hint to a quarter of the store, over all ranks of the
// model. More would evict its own first pages.
const prefetchShare = 4

// prefetcher pulls pages that engines are expected to ask for.
type prefetcher struct {
	cfg      *Config
	log      *slog.Logger
	pages    *pages
	peers    *peerClient
	seed     maphash.Seed
	slots    chan struct{} // capacity maxHints
	expected atomic.Int64  // pages
	hints    hintCounts

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
	Model    string   `json:"model"`               // as the engine names it; "" is any
	InputIDs []uint32 `json:"input_ids,omitempty"` // tokens of the prompt,
	// Or SGLang's page hashes from the first page on, 64 hexadecimal digits each.
	Hashes    []string `json:"hashes,omitempty"`
	PageSize  int      `json:"page_size,omitempty"`  // tokens; 0 is that of the engines here
	CacheSalt string   `json:"cache_salt,omitempty"` // of the request
}

// Expected is the outcome of a hint, over all ranks of the model on this node.
type Expected struct {
	Namespaces int `json:"namespaces"` // of the model
	Pages      int `json:"pages"`      // of the hint
	Ready      int `json:"ready"`      // of these, leading pages that are present or being pulled
}

// add counts a namespace.
func (e *Expected) add(pages, ready int) {
	e.Namespaces++
	e.Pages += pages
	e.Ready += ready
}

// ErrHint is a hint that cannot be read.
var ErrHint = errors.New("store: bad hint")

// prefetch has the absent pages of a hint pulled. It waits for the peers' answers, not for the
// pages.
func (f *prefetcher) prefetch(h Hint) (e Expected, err error) {
	var given []proto.Hash
	for _, text := range h.Hashes {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(proto.Hash{}) {
			return e, fmt.Errorf("%w: hash %q, want 64 hexadecimal digits", ErrHint, text)
		}
		given = append(given, proto.Hash(raw))
	}
	if len(given) == 0 && len(h.InputIDs) == 0 {
		return e, fmt.Errorf("%w: neither input_ids nor hashes", ErrHint)
	}
	hashes := func(pageSize int) []proto.Hash {
		if len(given) > 0 {
			return given
		}
		return proto.PageHashes(h.InputIDs, pageSize, h.CacheSalt)
	}
	for chain, s := range f.chains(f.pages.ofModel(h.Model, h.PageSize), hashes) {
		_, ready := f.pullAbsent(s.ns, chain, 0, "")
		e.add(len(chain), ready)
	}
	f.expected.Add(int64(e.Pages))
	return e, nil
}

// chains yields the pages of a hint in each namespace, cut to the bound of prefetchShare.
func (f *prefetcher) chains(spaces []modelNamespace, hashes func(pageSize int) []proto.Hash) func(yield func([]proto.Hash, modelNamespace) bool) {
	return func(yield func([]proto.Hash, modelNamespace) bool) {
		bytes := 0
		for _, s := range spaces {
			bytes += s.bytes
		}
		most := int(f.cfg.Bytes / prefetchShare / int64(max(bytes, 1)))
		var chain []proto.Hash
		for i, s := range spaces {
			if i == 0 || s.pageSize != spaces[i-1].pageSize {
				chain = hashes(s.pageSize)
			}
			if !yield(chain[:min(len(chain), most)], s) {
				return
			}
		}
	}
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
