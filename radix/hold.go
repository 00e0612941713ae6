package radix

import (
	"math/bits"
	"slices"
)

// Tier is where a copy of a block is.
type Tier uint8

// The tiers, fastest first.
const (
	TierGPU     Tier = 0
	TierCPU     Tier = 1
	TierStorage Tier = 2
	// TierUnknown removes the copy on the GPU if there is one, else the one in the fastest tier. It cannot be stored to.
	TierUnknown Tier = 255

	tiers = 3
	// tierPin is not a tier: its bits keep blocks in the tree that are not credited, see alias.
	tierPin Tier = tiers
)

// hold is what one worker holds of one run. It is guarded by both the worker's and the run's lock: only the worker's writer
// changes it, and trimming the run reads it.
type hold struct {
	run    *run
	worker Worker
	handle uint32 // place in worker.holds
	slot   uint32 // place in run.holds and run.leads
	weight uint32 // bytes that are counted for it

	leadAny, leadGPU uint32          // blocks from the run's start without a hole
	live             int32           // bits set, those of odd too
	own              bool            // the run has it as its own: so onRun has it not
	born             bool            // lies in the run's memory
	has              [tiers][]uint64 // a bit per block that is held once by the name that has its place there, as far as needed
	odd              *odd            // what is held in other ways; nil as good as always
	ownHas           [1]uint64       // memory of the first of has
}

// odd counts the blocks of a run that a worker holds by entries in its own table.
type odd struct {
	has  [tiers + 1][]uint64 // a bit per block of the run, as far as needed
	more map[uint64]uint32   // (offset, tier) to engine hashes beyond the first; nil as good as always
}

func moreKey(offset uint32, t Tier) uint64 { return uint64(offset)<<2 | uint64(t) }

// acquire notes that one engine hash more of the worker's table has copies of the block in the tier.
func (h *hold) acquire(offset uint32, t Tier) {
	if h.odd == nil {
		h.odd = new(odd)
	}
	if d := h.odd; bit(d.has[t], offset) {
		if d.more == nil {
			d.more = make(map[uint64]uint32)
		}
		d.more[moreKey(offset, t)]++
		return
	}
	setBit(&h.odd.has[t], offset)
	h.live++
}

// release undoes one acquire.
func (h *hold) release(offset uint32, t Tier) {
	k := moreKey(offset, t)
	if n := h.odd.more[k]; n > 0 {
		if n == 1 {
			delete(h.odd.more, k)
		} else {
			h.odd.more[k] = n - 1
		}
		return
	}
	h.odd.has[t][offset/64] &^= 1 << (offset % 64)
	h.live--
	i, shift := int(offset/64), offset%64
	if t == TierGPU && h.tierWord(t, i)>>shift&1 == 0 {
		h.leadGPU = min(h.leadGPU, offset)
	}
	if h.word(i)>>shift&1 == 0 {
		h.leadAny = min(h.leadAny, offset)
	}
}

func setBit(words *[]uint64, i uint32) {
	reach(words, int(i/64))
	(*words)[i/64] |= 1 << (i % 64)
}

// reach makes words long enough for index i.
func reach(words *[]uint64, i int) {
	if n := i + 1 - len(*words); n > 0 {
		*words = append(*words, make([]uint64, n)...)
	}
}

// tierWord returns the 64 blocks from 64*i on as held in a tier.
func (h *hold) tierWord(t Tier, i int) (v uint64) {
	if i < len(h.has[t]) {
		v = h.has[t][i]
	}
	if h.odd != nil && i < len(h.odd.has[t]) {
		v |= h.odd.has[t][i]
	}
	return v
}

// word returns the 64 blocks from 64*i on as held in any tier.
func (h *hold) word(i int) (v uint64) {
	for t := range Tier(tiers) {
		v |= h.tierWord(t, i)
	}
	return v
}

// named returns the 64 blocks from 64*i on as held by name in any tier.
func (h *hold) named(i int) (v uint64) {
	for t := range h.has {
		if i < len(h.has[t]) {
			v |= h.has[t][i]
		}
	}
	return v
}

// copies returns how many copies of a block are held by name: one or none in each tier.
func (h *hold) copies(offset uint32) (n copies) {
	for t := range h.has {
		if bit(h.has[t], offset) {
			n[t] = 1
		}
	}
	return n
}

// enter notes a copy of each of n blocks by name, and returns how many were in no tier before. It fails if one was
// in this tier: copies beyond the first are counted in the worker's table.
func (h *hold) enter(offset, n int, t Tier) (fresh int, ok bool) {
	end := offset + n
	for i := offset / 64; i*64 < end && i < len(h.has[t]); i++ {
		if h.has[t][i]&span(i, offset, end) != 0 {
			return 0, false
		}
	}
	reach(&h.has[t], (end-1)/64)
	for i := offset / 64; i*64 < end; i++ {
		m := span(i, offset, end)
		fresh += bits.OnesCount64(m &^ h.named(i))
		h.has[t][i] |= m
	}
	h.live += int32(n)
	return fresh, true
}

// span returns the bits of [from, to) in word i.
func span(i, from, to int) uint64 {
	m := ^uint64(0)
	if d := from - 64*i; d > 0 {
		m <<= d
	}
	if d := 64*(i+1) - to; d > 0 {
		m &= ^uint64(0) >> d
	}
	return m
}

// leave takes the copies of the blocks of [from, to) by name from a tier, and returns how many are in none now. It fails if one was not
// in this tier.
func (h *hold) leave(from, to int, t Tier) (gone int, ok bool) {
	if from == to {
		return 0, true
	}
	if (to-1)/64 >= len(h.has[t]) {
		return 0, false
	}
	for i := from / 64; i*64 < to; i++ {
		if m := span(i, from, to); h.has[t][i]&m != m {
			return 0, false
		}
	}
	for i := from / 64; i*64 < to; i++ {
		m := span(i, from, to)
		h.has[t][i] &^= m
		gone += bits.OnesCount64(m &^ h.named(i))
	}
	h.live -= int32(to - from)
	// Where a block is held in other ways, advance goes on over it.
	if t == TierGPU {
		h.leadGPU = min(h.leadGPU, uint32(from))
	}
	h.leadAny = min(h.leadAny, uint32(from))
	return gone, true
}

// estrange counts a block that was held by name as held by an entry.
func (h *hold) estrange(offset uint32) {
	for t, n := range h.copies(offset) {
		if n > 0 {
			h.acquire(offset, Tier(t))
			h.leave(int(offset), int(offset)+1, Tier(t))
		}
	}
}

// advance moves the leads over the blocks that are there now. Leads only fall in release and leave, so this is all that rises.
func (h *hold) advance() {
	h.leadAny = leadFrom(h.leadAny, h.word)
	h.leadGPU = leadFrom(h.leadGPU, func(i int) uint64 { return h.tierWord(TierGPU, i) })
}

// leadFrom counts on from a lead through the set bits that follow.
func leadFrom(lead uint32, word func(int) uint64) uint32 {
	for {
		shift := lead % 64
		ones := uint32(bits.TrailingZeros64(^(word(int(lead/64)) >> shift)))
		ones = min(ones, 64-shift)
		lead += ones
		if shift+ones < 64 {
			return lead
		}
	}
}

// top returns the end of the last block held.
func (h *hold) top() int {
	top := 0
	for t := range h.has {
		top = max(top, topOf(h.has[t]))
	}
	if h.odd != nil {
		for t := range h.odd.has {
			top = max(top, topOf(h.odd.has[t]))
		}
	}
	return top
}

func topOf(words []uint64) int {
	for i, v := range slices.Backward(words) {
		if v != 0 {
			return 64*i + bits.Len64(v)
		}
	}
	return 0
}

func (h *hold) lead() uint64 { return packLead(h.worker, h.leadAny, h.leadGPU) }
