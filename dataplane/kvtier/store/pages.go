package store

import (
	"sync"
	"time"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
)

// pages is the pages of this node: their memory, their index and the lock of the index. The lock is
// held for lookups only, never for a copy or I/O.
type pages struct {
	arena   *arena
	now     func() time.Time
	changed chan struct{} // capacity 1: there are changes for the reader of the feed
	counts  *tally

	mu     sync.Mutex // guards index and closed
	index  *index
	closed bool
	inUse  sync.WaitGroup // readers and writers of the arena
}

func newPages(a *arena, now func() time.Time) *pages {
	return &pages{
		arena: a, now: now, counts: &tally{}, index: newIndex(a.slabs(), a.slab), changed: make(chan struct{}, 1),
	}
}

// enter allows the caller to use the arena until leave.
func (p *pages) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	p.inUse.Add(1)
	return nil
}

func (p *pages) leave() { p.inUse.Done() }

// close waits for all users of the arena and unmaps it. It may be called twice.
func (p *pages) close() {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if !closed {
		p.inUse.Wait()
		p.arena.close()
	}
}

// wake tells the reader of the feed about changes. It does not block.
func (p *pages) wake() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// prefix returns the number of leading pages of a chain, and counts that as a use of them.
func (p *pages) prefix(ns uint32, hashes []proto.Hash) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index.prefix(ns, hashes)
}

// holds is prefix without a use: a peer or a router has asked, and no engine yet.
func (p *pages) holds(ns uint32, hashes []proto.Hash) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index.leading(ns, hashes)
}

const (
	// pinnedShare bounds the pins to a quarter of the pages, so that readers that keep all they
	// read do not stop the store from storing. Several pins of one page count each.
	pinnedShare = 4
	// minPins lets small stores be read.
	minPins = 1024
)

// pin pins pages and appends their offsets, or absent. It counts a use: SGLang may read without a
// question before.
func (p *pages) pin(dst []uint64, ns uint32, hashes []proto.Hash) (offsets []uint64, entries []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.index
	serves := x.spaces.serves(ns)
	for _, h := range hashes {
		e := none
		if serves {
			e = x.table.find(key{ns, h})
		}
		if e == none || x.stats.pinned > max(minPins, x.stats.ready/pinnedShare) {
			dst = append(dst, absent)
			continue
		}
		x.pin(e)
		entries = append(entries, e)
		dst = append(dst, uint64(x.table.entries[e].offset))
	}
	x.prefix(ns, hashes)
	return dst, entries
}

// unpin takes pins back.
func (p *pages) unpin(entries []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		p.index.unpin(e)
	}
}

// reserve finds room for the absent pages of a chain, behind parent where that is given. results
// gets a set… value for each page. The caller commits or abandons the batch.
func (p *pages) reserve(ns uint32, hashes []proto.Hash, parent *proto.Hash, results []byte, prefetched bool) (*batch, []byte) {
	b := &batch{pages: p, ns: ns, hashes: append([]proto.Hash(nil), hashes...), entries: make([]int32, len(hashes)), offsets: make([]int64, len(hashes))}
	if parent != nil {
		own := *parent
		b.parent = &own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range b.hashes {
		e, present := p.index.reserve(ns, h, prefetched)
		b.entries[i] = e
		switch {
		case present:
			results = append(results, setPresent)
		case e == none:
			results = append(results, setFull)
		default:
			b.offsets[i], b.bytes = p.index.table.entries[e].offset, p.index.spaces.byID[ns].bytes
			results = append(results, setCopied)
		}
	}
	return b, results
}

// namespace returns the namespace of a name, which it adds where it is new.
func (p *pages) namespace(name string, bytes int) (uint32, error) {
	p.mu.Lock()
	_, known := p.index.spaces.byName[name]
	ns, err := p.index.spaces.get(name, bytes)
	p.mu.Unlock()
	if err == nil && !known {
		p.collect() // pages of namespaces that made room
	}
	return ns, err
}

// open returns the namespace of a name for a connection of an engine, until closeConnection.
func (p *pages) open(name string, bytes int) (uint32, error) {
	if _, err := p.namespace(name, bytes); err != nil {
		return 0, err
	}
	p.mu.Lock()
	ns, err := p.index.spaces.get(name, bytes) // newer ones may have pushed it out meanwhile
	if err == nil {
		p.index.spaces.open(name)
	}
	p.mu.Unlock()
	p.wake()
	return ns, err
}

// closeConnection ends a connection; retired: the engine has loaded other weights.
func (p *pages) closeConnection(name string, retired bool) {
	p.mu.Lock()
	discarded := p.index.spaces.close(name, retired)
	p.mu.Unlock()
	p.wake()
	if discarded {
		p.collect()
	}
}

// current returns the present namespace of a name that an engine has opened: a clear replaces it.
func (p *pages) current(name string) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index.spaces.byName[name]
}

// requested returns the namespace of a peer's request; noNamespace where engines here do not use
// it or the peer does not know of the same clears.
func (p *pages) requested(r *pageRequest) uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	ns, ok := p.index.spaces.byName[r.name]
	if !ok {
		return noNamespace
	}
	if s := p.index.spaces.byID[ns]; s.bytes != int(r.bytes) || s.stamp != r.stamp {
		return noNamespace
	}
	return ns
}

// request returns a request for pages of a namespace, without hashes. ok is false where the
// namespace is discarded.
func (p *pages) request(ns uint32) (r pageRequest, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.index.spaces.byID[ns]
	if s == nil || s.discarded {
		return r, false
	}
	return pageRequest{bytes: uint32(s.bytes), name: s.name, stamp: s.stamp}, true
}

// ofModel lists the namespaces of a model: see namespaces.
func (p *pages) ofModel(model string, pageSize int) []modelNamespace {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index.spaces.ofModel(model, pageSize)
}

// bytesPerToken returns the KV bytes of a token: see namespaces.
func (p *pages) bytesPerToken(ns uint32) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.index.spaces.bytesPerToken(ns)
}

// collect drops the pages of discarded namespaces that are neither read nor written.
func (p *pages) collect() {
	for at := 0; at >= 0; {
		p.mu.Lock()
		at = p.index.collect(at)
		p.mu.Unlock()
	}
}
