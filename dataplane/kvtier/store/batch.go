package store

import "github.com/warmpath/warmpath/dataplane/kvtier/proto"

// batch is pages that one writer fills. Readers do not see them before commit, and an abandoned
// batch leaves nothing behind. It belongs to one goroutine.
type batch struct {
	pages   *pages
	ns      uint32
	hashes  []proto.Hash
	entries []int32 // none: was present, or found no room
	offsets []int64 // of their slots in the arena
	bytes   int     // of a page
	parent  *proto.Hash
}

// memory returns the slot of the i-th page, or nil where it has none.
func (b *batch) memory(i int) []byte {
	if b.entries[i] == none {
		return nil
	}
	return b.pages.arena.at(b.offsets[i], b.bytes)
}

// drop frees the slot of a page that will not come.
func (b *batch) drop(i int) {
	if b.entries[i] == none {
		return
	}
	b.pages.mu.Lock()
	b.pages.index.drop(b.entries[i])
	b.pages.mu.Unlock()
	b.entries[i] = none
}

// commit makes the pages readable.
func (b *batch) commit() {
	b.pages.mu.Lock()
	b.pages.index.publish(b.ns, b.hashes, b.entries, b.parent)
	b.pages.mu.Unlock()
	b.pages.wake()
}

// abandon frees the slots.
func (b *batch) abandon() {
	b.pages.mu.Lock()
	for _, e := range b.entries {
		if e != none {
			b.pages.index.drop(e)
		}
	}
	b.pages.mu.Unlock()
	b.pages.wake() // other pages may have been evicted for the slots
}
