package store

import "encoding/binary"

// ghosts remembers the pages that were evicted last, by 64 bits of a hash that is as good as
// random. A collision costs one wrong step of a heuristic.
type ghosts struct {
	seen  map[uint64]uint32 // index in order, plus first, modulo 2^32
	order []uint64          // oldest first
	first uint32            // number of order[0]
}

// maxGhosts bounds the memory: 1M pages take 40 MB. Only tiers with pages of a few KiB have more.
const maxGhosts = 1 << 20

func ghostOf(k key) uint64 {
	return binary.LittleEndian.Uint64(k.hash[:]) ^ uint64(k.ns)*0x9e3779b97f4a7c15
}

// add remembers a page, and at most limit pages.
func (g *ghosts) add(k key, limit int) {
	if g.seen == nil {
		g.seen = map[uint64]uint32{}
	}
	page := ghostOf(k)
	g.seen[page] = g.first + uint32(len(g.order))
	g.order = append(g.order, page)
	limit = max(1, min(limit, maxGhosts))
	// order also has pages that were taken or added again, so it has a bound of its own.
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
	page := ghostOf(k)
	if _, ok := g.seen[page]; !ok {
		return false
	}
	delete(g.seen, page)
	return true
}
