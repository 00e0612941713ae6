package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// pending is a batch of pages that one writer fills. Nobody sees them before commit, and an abandoned batch leaves nothing
// behind. It belongs to one goroutine.
type pendingSet struct {
	tier    *Tier
	ns      uint32
	hashes  []proto.Hash
	entries []int32 // none: was here, or found no room
	parent  *proto.Hash
}

// reserve finds room for pages that are not here, each of which follows the one before it, the first on parent where that is
// known. results gets a set… value for each. The caller commits or abandons the batch.
func (t *Tier) reserve(ns uint32, hashes []proto.Hash, parent *proto.Hash, results []byte) (*pendingSet, []byte) {
	return t.reserveFor(ns, hashes, parent, results, true)
}

// reserveFor is reserve for pages that somebody wants, or that are only expected to be wanted.
func (t *Tier) reserveFor(ns uint32, hashes []proto.Hash, parent *proto.Hash, results []byte, wanted bool) (*pendingSet, []byte) {
	p := &pendingSet{tier: t, ns: ns, hashes: append([]proto.Hash(nil), hashes...), entries: make([]int32, len(hashes))}
	if parent != nil {
		own := *parent
		p.parent = &own
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, h := range p.hashes {
		e, present := t.index.reserveFor(ns, h, wanted)
		p.entries[i] = e
		switch {
		case present:
			results = append(results, setPresent)
		case e == none:
			results = append(results, setFull)
		default:
			results = append(results, setCopied)
		}
	}
	return p, results
}

// memory is where the i-th page is to be written; nil where it is not.
func (p *pendingSet) memory(i int) []byte {
	e := p.entries[i]
	if e == none {
		return nil
	}
	t := p.tier
	t.mu.Lock()
	offset, bytes := t.index.entries[e].offset, t.index.spaces[p.ns].bytes
	t.mu.Unlock()
	return t.arena.at(offset, bytes)
}

// offset is where the i-th page, which has room, lies in the arena.
func (p *pendingSet) offset(i int) int64 {
	p.tier.mu.Lock()
	defer p.tier.mu.Unlock()
	return p.tier.index.entries[p.entries[i]].offset
}

// drop gives back the room of one page, which will not come.
func (p *pendingSet) drop(i int) {
	if p.entries[i] == none {
		return
	}
	p.tier.mu.Lock()
	p.tier.index.abandon(p.entries[i])
	p.tier.mu.Unlock()
	p.entries[i] = none
}

// commit makes the pages readable.
func (p *pendingSet) commit() {
	p.tier.mu.Lock()
	p.tier.index.publish(p.ns, p.hashes, p.entries, p.parent)
	p.tier.mu.Unlock()
	p.tier.wake()
}

// abandon gives the room back.
func (p *pendingSet) abandon() {
	p.tier.mu.Lock()
	for _, e := range p.entries {
		if e != none {
			p.tier.index.abandon(e)
		}
	}
	p.tier.mu.Unlock()
	p.tier.wake() // others may have gone for their room
}
