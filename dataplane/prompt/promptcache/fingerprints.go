package promptcache

import "sync/atomic"

const (
	// fingerprintSlots is the number of fingerprints: after a quarter of a million other prompts, a
	// first one is overwritten with even odds. 1 MiB, which the kernel gives page by page as slots
	// are used.
	fingerprintSlots = 1 << 18
	// fingerprintShift leaves a slot's number of a 64-bit sum.
	fingerprintShift = 64 - 18
)

// fingerprints is a table of the pieces that came once, in which a newer fingerprint overwrites an
// older one in its slot. Two pieces with one fingerprint cost a piece that is never read; a lost
// fingerprint costs another parsing.
//
// Most long prompts are never seen again (a new document under the same question, a batch job). To
// remember one of 16,384 ids costs a copy of its bytes, ids and hashes, as much time as reading it
// (BenchmarkPrompt: new 20 µs, cold 38), and the memory of another one.
type fingerprints struct {
	slots [fingerprintSlots]atomic.Uint32
}

// checkAndSet reports whether the key came before, and notes that it came.
func (s *fingerprints) checkAndSet(k key) bool {
	slot, mark := s.at(k)
	if slot.Load() == mark {
		return true
	}
	slot.Store(mark)
	return false
}

// at returns a key's slot and its mark, which is never that of an empty slot.
func (s *fingerprints) at(k key) (slot *atomic.Uint32, mark uint32) {
	// Serials are small numbers, and must reach the upper bits.
	mixed := (k.sum ^ k.parent) * 0x9e3779b97f4a7c15
	return &s.slots[mixed>>fingerprintShift], uint32(mixed) | 1
}
