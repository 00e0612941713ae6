package store

import "encoding/binary"

// ghosts remembers names of pages that were evicted, the latest only. A name is 64 bits of a hash that is as good as random: two
// pages of one name cost a wrong step of a heuristic.
type ghosts struct {
	seen  map[uint64]uint32 // place in order, modulo 2^32
	order []uint64          // oldest first, from first on
	first uint32            // place of order[0]
}

// maxGhosts bounds the memory for them: 1M names take 40 MB. Only tiers with pages of a few KiB have more pages.
const maxGhosts = 1 << 20

func nameOf(k key) uint64 {
	return binary.LittleEndian.Uint64(k.hash[:]) ^ uint64(k.ns)*0x9e3779b97f4a7c15
}

// add remembers a page, and at most limit of them.
func (g *ghosts) add(k key, limit int) {
	if g.seen == nil {
		g.seen = map[uint64]uint32{}
	}
	name := nameOf(k)
	g.seen[name] = g.first + uint32(len(g.order))
	g.order = append(g.order, name)
	limit = max(1, min(limit, maxGhosts))
	// order holds names that were taken or came again too, and so is bounded by itself.
	for len(g.seen) > limit || len(g.order) > 2*limit {
		if oldest := g.order[0]; g.seen[oldest] == g.first {
			delete(g.seen, oldest)
		}
		g.order = g.order[1:]
		g.first++
	}
}

// take reports whether a page is remembered, and forgets it.
func (g *ghosts) take(k key) bool {
	name := nameOf(k)
	if _, ok := g.seen[name]; !ok {
		return false
	}
	delete(g.seen, name)
	return true
}
