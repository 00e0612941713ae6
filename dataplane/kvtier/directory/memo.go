package directory

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

const (
	// stretchTokens are hashed at once or not at all: what a prompt has behind its last whole stretch is hashed each time, 256 tokens on average.
	stretchTokens = 512
	// mostStretch bounds the pages of a stretch.
	mostStretch = 64
	// memoBytes bounds the memory: 16 million tokens in pages of 64, 4 million in pages of 16.
	memoBytes = 4 << 20
	memoWays  = 4
	// mostMemos is for how many sizes of pages hashes are remembered. A cluster has one, or two while it changes.
	mostMemos = 2
)

// memo remembers the names of pages in stretches of prompts that tiers knew. A stretch is found by a keyed hash of 64 bits of its tokens and of all before it, as the
// block index finds its blocks: comparing the tokens took half of a look-up, since those that were remembered are in no cache.
type memo struct {
	pages  int // of a stretch
	tokens int // of a stretch
	sets   []memoSet
	names  []uint64 // of all entries, pages each
	hash   func(tokens []uint32) uint64
}

// memoSet is the entries of which one is looked for.
type memoSet struct {
	mu    sync.Mutex // guards the set and its parts of names
	clock uint32
	used  [memoWays]uint32 // 0: there is nothing
	key   [memoWays]uint64
	after [memoWays][32]byte
}

func newMemo(pageTokens int, hash func([]uint32) uint64) *memo {
	pages := min(max(stretchTokens/pageTokens, 1), mostStretch)
	m := &memo{pages: pages, tokens: pages * pageTokens, hash: hash}
	sets := 1
	for 2*sets*(memoWays*8*m.pages+int(unsafe.Sizeof(memoSet{}))) <= memoBytes {
		sets *= 2
	}
	m.sets, m.names = make([]memoSet, sets), make([]uint64, sets*memoWays*m.pages)
	return m
}

// next is the key of a prompt up to the end of a stretch: key is that of what comes before.
func (m *memo) next(key uint64, ids []uint32) uint64 {
	const order = 0x9e3779b97f4a7c15 // odd: what comes before counts whole, and by its place
	return key*order + m.hash(ids)
}

// memoFor returns the memory for a size of pages; nil: there are enough.
func (x *Index) memoFor(pageTokens int) *memo {
	m := x.memos[pageTokens]
	if m == nil && len(x.memos) < mostMemos {
		m = newMemo(pageTokens, x.cfg.Hash)
		x.memos[pageTokens] = m
	}
	return m
}

// set finds where a stretch may be.
func (m *memo) set(key uint64) int { return int(key >> 32 & uint64(len(m.sets)-1)) }

// recall copies the names of a stretch's pages and its last digest, where they are remembered.
func (m *memo) recall(key uint64, names *[mostStretch]uint64, after *[32]byte) bool {
	at := m.set(key)
	s := &m.sets[at]
	if !s.mu.TryLock() {
		return false
	}
	for i := range s.key {
		if s.key[i] == key && s.used[i] != 0 {
			if s.used[i] != s.clock {
				s.clock++
				s.used[i] = max(s.clock, 1)
			}
			entry := at*memoWays + i
			copy(names[:], m.names[entry*m.pages:(entry+1)*m.pages])
			*after = s.after[i]
			s.mu.Unlock()
			return true
		}
	}
	s.mu.Unlock()
	return false
}

// keep remembers a stretch in place of the one of its set that was used longest ago.
func (m *memo) keep(key uint64, names *[mostStretch]uint64, after *[32]byte) {
	at := m.set(key)
	s := &m.sets[at]
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	oldest := 0
	for i := range s.used {
		// Ages, not times: the clock may have gone round.
		if s.used[i] == 0 || s.clock-s.used[i] > s.clock-s.used[oldest] && s.used[oldest] != 0 {
			oldest = i
		}
	}
	s.clock++
	s.used[oldest], s.key[oldest], s.after[oldest] = max(s.clock, 1), key, *after
	entry := at*memoWays + oldest
	copy(m.names[entry*m.pages:(entry+1)*m.pages], names[:])
}

// bytes is what it takes.
func (m *memo) bytes() int { return len(m.sets)*int(unsafe.Sizeof(memoSet{})) + 8*len(m.names) }

// seeded is a keyed hash for indexes that are given none.
func seeded() func(tokens []uint32) uint64 {
	seed := maphash.MakeSeed()
	return func(tokens []uint32) uint64 {
		if len(tokens) == 0 {
			return 0
		}
		return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(&tokens[0])), 4*len(tokens)))
	}
}
