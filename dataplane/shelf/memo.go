package shelf

import (
	"encoding/binary"
	"slices"
	"sync"
)

const (
	// stretchTokens are hashed at once or not at all: what a prompt has behind its last whole stretch is hashed each time, 256 tokens on average.
	stretchTokens = 512
	// mostStretch bounds the pages of a stretch.
	mostStretch = 64
	// memoBytes bounds the memory: 4 million tokens in pages of 64.
	memoBytes = 16 << 20
	memoWays  = 4
	// mostMemos is for how many sizes of pages hashes are remembered. A cluster has one, or two while it changes.
	mostMemos = 2
)

// memo remembers the hashes of stretches of prompts that tiers knew. A stretch is found only by its own tokens, compared one by one, and the digest of all before
// it: what is found is what would be computed.
type memo struct {
	pages  int // of a stretch
	tokens int // of a stretch
	sets   []memoSet
	ids    []uint32 // of all entries, tokens each
	names  []uint64 // of all entries, pages each
}

// memoSet is the entries of which one is looked for.
type memoSet struct {
	mu    sync.Mutex // guards the set and its parts of ids and names
	clock uint32
	ways  [memoWays]struct {
		used          uint32 // 0: there is nothing
		before, after [32]byte
	}
}

func newMemo(pageTokens int) *memo {
	pages := min(max(stretchTokens/pageTokens, 1), mostStretch)
	m := &memo{pages: pages, tokens: pages * pageTokens}
	sets := 1
	for 2*sets*memoWays*(4*m.tokens+8*m.pages) <= memoBytes+memoBytes/8 {
		sets *= 2
	}
	m.sets = make([]memoSet, sets)
	m.ids, m.names = make([]uint32, sets*memoWays*m.tokens), make([]uint64, sets*memoWays*m.pages)
	return m
}

// memoFor returns the memory for a size of pages; nil: there are enough.
func (x *Index) memoFor(pageTokens int) *memo {
	m := x.memos[pageTokens]
	if m == nil && len(x.memos) < mostMemos {
		m = newMemo(pageTokens)
		x.memos[pageTokens] = m
	}
	return m
}

// set finds where a stretch may be, by some of its tokens.
func (m *memo) set(before *[32]byte, ids []uint32) int {
	const mixed = 0x9e3779b97f4a7c15
	h, eighth, last := binary.LittleEndian.Uint64(before[:8]), len(ids)/8, len(ids)-1
	for i := range 8 { // independent of each other, and so done at once
		h += uint64(ids[last-i*eighth]) * (mixed << (2 * i))
	}
	h *= mixed
	return int(h >> 40 & uint64(len(m.sets)-1))
}

// recall copies the names of a stretch's pages and its last digest, where they are remembered.
func (m *memo) recall(before *[32]byte, ids []uint32, names *[mostStretch]uint64, after *[32]byte) bool {
	if m == nil {
		return false
	}
	at := m.set(before, ids)
	s := &m.sets[at]
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	for i := range s.ways {
		w, entry := &s.ways[i], at*memoWays+i
		if w.used != 0 && w.before == *before && slices.Equal(m.ids[entry*m.tokens:(entry+1)*m.tokens], ids) {
			s.clock++
			w.used = s.clock
			copy(names[:], m.names[entry*m.pages:(entry+1)*m.pages])
			*after = w.after
			return true
		}
	}
	return false
}

// keep remembers a stretch in place of the one of its set that was used longest ago.
func (m *memo) keep(before *[32]byte, ids []uint32, names *[mostStretch]uint64, after *[32]byte) {
	if m == nil {
		return
	}
	at := m.set(before, ids)
	s := &m.sets[at]
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	oldest := 0
	for i := range s.ways {
		// Ages, not times: the clock may have gone round.
		if s.ways[i].used == 0 || s.clock-s.ways[i].used > s.clock-s.ways[oldest].used && s.ways[oldest].used != 0 {
			oldest = i
		}
	}
	s.clock++
	w, entry := &s.ways[oldest], at*memoWays+oldest
	w.used, w.before, w.after = max(s.clock, 1), *before, *after
	copy(m.ids[entry*m.tokens:(entry+1)*m.tokens], ids)
	copy(m.names[entry*m.pages:(entry+1)*m.pages], names[:])
}

// bytes is what it takes.
func (m *memo) bytes() int { return 4*len(m.ids) + 8*len(m.names) }
