package radix

import (
	"math/bits"
	"slices"
)

// Tier is the storage tier of a copy of a block.
type Tier uint8

// The tiers, fastest first.
const (
	TierGPU     Tier = 0
	TierCPU     Tier = 1
	TierStorage Tier = 2
	// TierUnknown removes the copy on the GPU if there is one, else the copy in the fastest
	// tier. Blocks cannot be stored in it.
	TierUnknown Tier = 255

	tiers = 3
	// tierPin is no tier: its bits keep uncredited blocks in the tree, see alias.
	tierPin Tier = tiers
)

// holding is the part of one run that one worker holds. A listed copy is the only copy of its
// block in its tier and has the engine hash that the run lists: it costs one bit here. All
// other copies are entries of the worker's table, counted in entries.
//
// Both the worker's and the run's lock guard it: only the worker's writer changes it, and
// trimming the run reads it.
type holding struct {
	run     *run
	worker  Worker
	handle  uint32 // index in worker.holdings
	slot    uint32 // index in run.holders and in the coverage words
	counted uint32 // bytes in the accounts

	coveredAny, coveredGPU uint32          // blocks from the run's start without a hole
	blocks                 int32           // bits set, those of entries included
	first                  bool            // run.firstHolding is this one; holdings.byRun lacks it
	inRun                  bool            // its memory is the run's
	listed                 [tiers][]uint64 // a bit per listed copy, as far as needed
	entries                *entryBlocks    // mostly nil
	inline                 [1]uint64       // memory of the first of listed
}

// entryBlocks counts the blocks of a run that a worker holds by entries.
type entryBlocks struct {
	tiers [tiers + 1][]uint64 // a bit per block of the run, as far as needed
	extra map[uint64]uint32   // (offset, tier) to engine hashes beyond the first; mostly nil
}

func extraKey(offset uint32, t Tier) uint64 { return uint64(offset)<<2 | uint64(t) }

// addEntry counts one more engine hash of the worker's table with copies of the block in the
// tier.
func (h *holding) addEntry(offset uint32, t Tier) {
	if h.entries == nil {
		h.entries = new(entryBlocks)
	}
	if e := h.entries; bit(e.tiers[t], offset) {
		if e.extra == nil {
			e.extra = make(map[uint64]uint32)
		}
		e.extra[extraKey(offset, t)]++
		return
	}
	setBit(&h.entries.tiers[t], offset)
	h.blocks++
}

// removeEntry undoes one addEntry.
func (h *holding) removeEntry(offset uint32, t Tier) {
	k := extraKey(offset, t)
	if n := h.entries.extra[k]; n > 0 {
		if n == 1 {
			delete(h.entries.extra, k)
		} else {
			h.entries.extra[k] = n - 1
		}
		return
	}
	h.entries.tiers[t][offset/64] &^= 1 << (offset % 64)
	h.blocks--
	i, shift := int(offset/64), offset%64
	if t == TierGPU && h.tierWord(t, i)>>shift&1 == 0 {
		h.coveredGPU = min(h.coveredGPU, offset)
	}
	if h.word(i)>>shift&1 == 0 {
		h.coveredAny = min(h.coveredAny, offset)
	}
}

// tierWord returns the 64 blocks from 64*i on that are held in a tier.
func (h *holding) tierWord(t Tier, i int) (v uint64) {
	if i < len(h.listed[t]) {
		v = h.listed[t][i]
	}
	if h.entries != nil && i < len(h.entries.tiers[t]) {
		v |= h.entries.tiers[t][i]
	}
	return v
}

// word returns the 64 blocks from 64*i on that are held in any tier.
func (h *holding) word(i int) (v uint64) {
	for t := range Tier(tiers) {
		v |= h.tierWord(t, i)
	}
	return v
}

// pinnedWord returns the 64 blocks from 64*i on that aliases have, credited or not.
func (h *holding) pinnedWord(i int) uint64 {
	if h.entries == nil || i >= len(h.entries.tiers[tierPin]) {
		return 0
	}
	return h.entries.tiers[tierPin][i]
}

// listedWord returns the 64 blocks from 64*i on that have a listed copy in any tier.
func (h *holding) listedWord(i int) (v uint64) {
	for t := range h.listed {
		if i < len(h.listed[t]) {
			v |= h.listed[t][i]
		}
	}
	return v
}

// listedBlocks returns the number of blocks with a listed copy.
func (h *holding) listedBlocks() (n int) {
	for i := range (h.end() + 63) / 64 {
		n += bits.OnesCount64(h.listedWord(i))
	}
	return n
}

// listedCopies returns the listed copies of a block: one or none in each tier.
func (h *holding) listedCopies(offset uint32) (n copies) {
	for t := range h.listed {
		if bit(h.listed[t], offset) {
			n[t] = 1
		}
	}
	return n
}

// addListed adds a listed copy of each of n blocks, and returns the number of blocks that had
// none before. It fails if a block has a listed copy in this tier: the worker's table counts
// further copies.
func (h *holding) addListed(offset, n int, t Tier) (fresh int, ok bool) {
	end := offset + n
	for i := offset / 64; i*64 < end && i < len(h.listed[t]); i++ {
		if h.listed[t][i]&bitRange(i, offset, end) != 0 {
			return 0, false
		}
	}
	growWords(&h.listed[t], (end-1)/64)
	for i := offset / 64; i*64 < end; i++ {
		m := bitRange(i, offset, end)
		fresh += bits.OnesCount64(m &^ h.listedWord(i))
		h.listed[t][i] |= m
	}
	h.blocks += int32(n)
	return fresh, true
}

// removeListed removes the listed copies of the blocks [from, to) from a tier, and returns the
// number of blocks that have none left. It fails if a block has no listed copy in this tier.
func (h *holding) removeListed(from, to int, t Tier) (gone int, ok bool) {
	if from == to {
		return 0, true
	}
	if (to-1)/64 >= len(h.listed[t]) {
		return 0, false
	}
	for i := from / 64; i*64 < to; i++ {
		if m := bitRange(i, from, to); h.listed[t][i]&m != m {
			return 0, false
		}
	}
	for i := from / 64; i*64 < to; i++ {
		m := bitRange(i, from, to)
		h.listed[t][i] &^= m
		gone += bits.OnesCount64(m &^ h.listedWord(i))
	}
	h.blocks -= int32(to - from)
	// advanceCoverage goes on over blocks that entries hold.
	if t == TierGPU {
		h.coveredGPU = min(h.coveredGPU, uint32(from))
	}
	h.coveredAny = min(h.coveredAny, uint32(from))
	return gone, true
}

// moveToEntries turns the listed copies of a block into copies of an entry.
func (h *holding) moveToEntries(offset uint32) {
	for t, n := range h.listedCopies(offset) {
		if n > 0 {
			h.addEntry(offset, Tier(t))
			h.removeListed(int(offset), int(offset)+1, Tier(t))
		}
	}
}

// advanceCoverage extends the coverage over the blocks that are held now. The coverage falls
// only in removeEntry and removeListed, and rises only here.
func (h *holding) advanceCoverage() {
	h.coveredAny = countOnes(h.coveredAny, h.word)
	h.coveredGPU = countOnes(h.coveredGPU, func(i int) uint64 { return h.tierWord(TierGPU, i) })
}

// coverage returns the word that look-ups read.
func (h *holding) coverage() uint64 { return packCoverage(h.worker, h.coveredAny, h.coveredGPU) }

// end returns the offset behind the last block held.
func (h *holding) end() int {
	end := 0
	for t := range h.listed {
		end = max(end, endOfBits(h.listed[t]))
	}
	if h.entries != nil {
		for t := range h.entries.tiers {
			end = max(end, endOfBits(h.entries.tiers[t]))
		}
	}
	return end
}

// byteSize returns the bytes of a holding.
func (h *holding) byteSize() int64 {
	n := holdingBytes
	if h.inRun {
		n = 0
	}
	for t := range h.listed {
		if c := cap(h.listed[t]); t != int(TierGPU) || c > len(h.inline) {
			n += sizeClass(8 * int64(c))
		}
	}
	if e := h.entries; e != nil {
		n += entryBlocksBytes + mapBytes(len(e.extra))
		for t := range e.tiers {
			n += sizeClass(8 * int64(cap(e.tiers[t])))
		}
	}
	return n
}

// countOnes counts on from bit n through the set bits that follow.
func countOnes(n uint32, word func(int) uint64) uint32 {
	for {
		shift := n % 64
		ones := uint32(bits.TrailingZeros64(^(word(int(n/64)) >> shift)))
		ones = min(ones, 64-shift)
		n += ones
		if shift+ones < 64 {
			return n
		}
	}
}

func bit(words []uint64, i uint32) bool {
	return int(i/64) < len(words) && words[i/64]>>(i%64)&1 == 1
}

func setBit(words *[]uint64, i uint32) {
	growWords(words, int(i/64))
	(*words)[i/64] |= 1 << (i % 64)
}

// growWords makes words long enough for index i.
func growWords(words *[]uint64, i int) {
	if n := i + 1 - len(*words); n > 0 {
		*words = append(*words, make([]uint64, n)...)
	}
}

// bitRange returns the bits of [from, to) in word i.
func bitRange(i, from, to int) uint64 {
	m := ^uint64(0)
	if d := from - 64*i; d > 0 {
		m <<= d
	}
	if d := 64*(i+1) - to; d > 0 {
		m &= ^uint64(0) >> d
	}
	return m
}

// endOfBits returns the index behind the last set bit.
func endOfBits(words []uint64) int {
	for i, v := range slices.Backward(words) {
		if v != 0 {
			return 64*i + bits.Len64(v)
		}
	}
	return 0
}
