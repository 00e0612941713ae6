package tokenizer

import (
	"fmt"
	"hash/maphash"
)

// maxID bounds token ids, so that a broken file cannot make us allocate by id. The largest
// vocabularies of 2026 have 262,145 ids.
const maxID = 1 << 22

// vocab holds the bytes of each token and finds a token by its bytes. It holds no pointers, so the
// garbage collector does not walk it.
type vocab struct {
	blob  []byte
	off   []uint32 // token id is blob[off[id]:off[id+1]]; empty where there is none
	whole []uint64 // bit per id: a piece that spells the token becomes just this token
	slots []uint32 // open addressing by hash of the bytes: id + 1, or 0
	seed  maphash.Seed
}

// newVocab takes the bytes of each token by id; tokens that no piece can spell are nil.
func newVocab(tokens [][]byte) vocab {
	v := vocab{off: make([]uint32, 0, len(tokens)+1), whole: make([]uint64, len(tokens)/64+1), seed: maphash.MakeSeed()}
	// At most half full, so a look-up ends after one or two steps.
	size := 1
	for size < 2*len(tokens) {
		size *= 2
	}
	v.slots = make([]uint32, size)
	for _, token := range tokens {
		v.off = append(v.off, uint32(len(v.blob)))
		v.blob = append(v.blob, token...)
	}
	v.off = append(v.off, uint32(len(v.blob)))
	for id, token := range tokens {
		if token == nil {
			continue
		}
		i := maphash.Bytes(v.seed, token) & uint64(size-1)
		for v.slots[i] != 0 {
			i = (i + 1) & uint64(size-1)
		}
		v.slots[i] = uint32(id) + 1
	}
	return v
}

// bytes are the bytes of a token, empty where there is none.
func (v *vocab) bytes(id uint32) []byte {
	if int(id)+1 >= len(v.off) {
		return nil
	}
	return v.blob[v.off[id]:v.off[id+1]]
}

// find is the token of these bytes.
func (v *vocab) find(s string) (uint32, bool) {
	last := uint64(len(v.slots) - 1)
	for i := maphash.String(v.seed, s) & last; v.slots[i] != 0; i = (i + 1) & last {
		id := v.slots[i] - 1
		if string(v.blob[v.off[id]:v.off[id+1]]) == s {
			return id, true
		}
	}
	return 0, false
}

func (v *vocab) isWhole(id uint32) bool { return v.whole[id/64]>>(id%64)&1 != 0 }
func (v *vocab) setWhole(id uint32)     { v.whole[id/64] |= 1 << (id % 64) }

// pair is the merge of a pair of tokens: rank << 32 | id of the result. The lower the rank, the
// sooner.
type pair = uint64

// noPair means that a pair does not merge. It is above every real one.
const noPair pair = 1<<64 - 1

// merges finds a pair by its two tokens: open addressing, one cache line a look-up.
type merges struct {
	slots []mergeSlot
	shift uint
}

type mergeSlot struct {
	key uint64 // left id << 32 | right id; unusedKey where the slot is free
	val pair
}

const (
	unusedKey = 1<<64 - 1
	// fibonacci spreads ids that count up; 2^64 divided by the golden ratio.
	fibonacci = 0x9E3779B97F4A7C15
)

// merge is one rule: left and right become result.
type merge struct{ left, right, result, rank uint32 }

// maxCluster bounds the occupied slots in a row, which a look-up walks. Half full, a table of a
// million pairs has some 70; a file could choose its ids so that all of them meet.
const maxCluster = 2048

// newMerges indexes rules. Of equal pairs the last one counts, as in the library.
func newMerges(rules []merge) (merges, error) {
	bits := uint(1)
	for 1<<bits < 2*len(rules) {
		bits++
	}
	m := merges{slots: make([]mergeSlot, 1<<bits), shift: 64 - bits}
	for i := range m.slots {
		m.slots[i].key = unusedKey
	}
	for _, rule := range rules {
		key := uint64(rule.left)<<32 | uint64(rule.right)
		slot := m.place(key)
		if slot == nil {
			return m, overLimit("merges with more than %d pairs in one place of the table", maxCluster)
		}
		slot.key = key
		slot.val = uint64(rule.rank)<<32 | uint64(rule.result)
	}
	if n := m.longestCluster(); n > maxCluster {
		return m, overLimit("merges with %d pairs in one place of the table", n)
	}
	return m, nil
}

// place is where a key belongs, nil where too many others are.
func (m *merges) place(key uint64) *mergeSlot {
	last := uint64(len(m.slots) - 1)
	for n, i := 0, key*fibonacci>>m.shift; n < maxCluster; n, i = n+1, (i+1)&last {
		if s := &m.slots[i]; s.key == key || s.key == unusedKey {
			return s
		}
	}
	return nil
}

// longestCluster is the most occupied slots in a row.
func (m *merges) longestCluster() int {
	longest, n := 0, 0
	// A row may go on from the last slot to the first.
	for i := range min(2*len(m.slots), len(m.slots)+maxCluster+1) {
		if n++; m.slots[i%len(m.slots)].key == unusedKey {
			n = 0
		}
		longest = max(longest, n)
	}
	return longest
}

// slot is where a key is or belongs.
func (m *merges) slot(key uint64) *mergeSlot {
	last := uint64(len(m.slots) - 1)
	for i := key * fibonacci >> m.shift; ; i = (i + 1) & last {
		if s := &m.slots[i]; s.key == key || s.key == unusedKey {
			return s
		}
	}
}

// of is the pair of two tokens, or noPair.
func (m *merges) of(left, right uint32) pair {
	key := uint64(left)<<32 | uint64(right)
	if s := m.slot(key); s.key == key {
		return s.val
	}
	return noPair
}

// checkID refuses ids that would make tables by id too large.
func checkID(token string, id uint32) error {
	if id >= maxID {
		return fmt.Errorf("token %q has id %d, more than %d", token, id, maxID)
	}
	return nil
}
