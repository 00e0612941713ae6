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

	leadAny, leadGPU uint32              // blocks from the run's start without a hole
	live             int                 // bits set
	has              [tiers + 1][]uint64 // a bit per block of the run, as far as needed
	more             map[uint64]uint32   // (offset, tier) to engine hashes beyond the first; nil as good as always
}

func moreKey(offset uint32, t Tier) uint64 { return uint64(offset)<<2 | uint64(t) }

// acquire notes that one engine hash more has copies of the block in the tier.
func (h *hold) acquire(offset uint32, t Tier) {
	word, bit := int(offset/64), uint64(1)<<(offset%64)
	for len(h.has[t]) <= word {
		h.has[t] = append(h.has[t], 0)
	}
	if h.has[t][word]&bit == 0 {
		h.has[t][word] |= bit
		h.live++
		return
	}
	if h.more == nil {
		h.more = make(map[uint64]uint32)
	}
	h.more[moreKey(offset, t)]++
}

// release undoes one acquire.
func (h *hold) release(offset uint32, t Tier) {
	k := moreKey(offset, t)
	if n := h.more[k]; n > 0 {
		if n == 1 {
			delete(h.more, k)
		} else {
			h.more[k] = n - 1
		}
		return
	}
	h.has[t][offset/64] &^= 1 << (offset % 64)
	h.live--
	if t == TierGPU {
		h.leadGPU = min(h.leadGPU, offset)
	}
	if h.word(int(offset/64))>>(offset%64)&1 == 0 {
		h.leadAny = min(h.leadAny, offset)
	}
}

// word returns the 64 blocks from 64*i on as held in any tier.
func (h *hold) word(i int) uint64 {
	var v uint64
	for t := range tiers {
		if i < len(h.has[t]) {
			v |= h.has[t][i]
		}
	}
	return v
}

// advance moves the leads over the blocks that are there now. Leads only fall in release, so this is all that rises.
func (h *hold) advance() {
	h.leadAny = leadFrom(h.leadAny, h.word)
	h.leadGPU = leadFrom(h.leadGPU, func(i int) uint64 {
		if i < len(h.has[TierGPU]) {
			return h.has[TierGPU][i]
		}
		return 0
	})
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
		for i, v := range slices.Backward(h.has[t]) {
			if v != 0 {
				top = max(top, 64*i+bits.Len64(v))
				break
			}
		}
	}
	return top
}

func (h *hold) lead() uint64 { return packLead(h.worker, h.leadAny, h.leadGPU) }
