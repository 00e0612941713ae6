package radix

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// blockTable maps engine hashes to blocks, for all workers: a block that a worker holds under
// the engine hash that the block's run lists costs the worker one bit and no entry. An engine
// hash has one block here, and a block one engine hash; a worker has others in its own
// entryTable.
//
// A slot is one word without a key: the run at its handle lists the engine hash, and the tag
// saves most reads of other runs. The tag also gives the slot's home, so slots move without a
// read of the run.
//
//	63       38 37       20 19      0
//	[  handle  ] [  offset  ] [  tag  ]
//
// Writers insert engine hashes in batches of 64 under one lock, so none is inserted twice; this
// takes a third less time than a compare-and-swap each, which the next cache miss waits for.
// Invalidating touches no slot: a slot is stale when its run is gone or no longer lists the
// engine hash there. A sweep drops stale slots stripe by stripe in one sequential pass, where
// each alone would be a cache miss.
//
// Look-ups hold one read lock. A sweep holds all of them and the insert lock.
type blockTable struct {
	stripes [blockStripes]blockStripe
	locks   [readLocks]readLock
	key     uint64
	runs    runRegistry

	memoryLow func(bytes int64) bool // whether growing by that much would exceed the budget

	slots atomic.Int64 // of all stripes
	used  atomic.Int64 // slots that are not free; written under insertMu
	live  atomic.Int64 // slots that are not stale

	sweepMu sync.Mutex // held through a sweep of all stripes

	_        [cacheLine]byte
	insertMu sync.Mutex // held while slots are written
	_        [cacheLine]byte
}

const (
	tagBits    = 20 // and the most slots of a stripe: 200 M blocks in all
	tagMask    = 1<<tagBits - 1
	offsetBits = 18 // maxRun blocks

	blockStripes   = 1 << stripeBits
	stripeBits     = 8
	stripeSlotsMin = 2 * lineSlots

	// lineSlots is the number of slots in a cache line. A stripe has whole lines.
	lineSlots = cacheLine / 8

	// readLocks is the number of look-ups that can run without sharing a lock's cache line.
	readLocks = 16

	// insertBatch is the number of engine hashes inserted at a time, one per bit of a word:
	// their cache misses overlap.
	insertBatch = 64
)

// blockStripe is replaced with insertMu and all read locks held; its slots are written with
// insertMu.
type blockStripe struct {
	slots []uint64 // 0 is free; atomic but for sweeps
	_     [cacheLine - 24]byte
}

type readLock struct {
	sync.RWMutex
	_ [cacheLine - 24]byte
}

func (t *blockTable) init(key uint64) {
	t.key = key
	t.runs.init()
}

func (t *blockTable) hash(engineHash uint64) uint64 { return keyed.Fold(engineHash^t.key, spread) }

func (t *blockTable) stripe(hash uint64) *blockStripe { return &t.stripes[hash>>(64-stripeBits)] }

func slotHandle(slot uint64) uint32 { return uint32(slot >> (tagBits + offsetBits)) }
func slotOffset(slot uint64) uint32 { return uint32(slot>>tagBits) & (1<<offsetBits - 1) }

// firstSlot returns the index where probing for a slot or a hash begins: its tag as a share of
// all slots, so any number of slots works. With AVX2 it is the first slot of its cache line.
func firstSlot(slots []uint64, v uint64) uint64 {
	return v & tagMask * uint64(len(slots)) >> tagBits &^ probeAlign()
}

// nextSlot returns the index behind i.
func nextSlot(slots []uint64, i uint64) uint64 {
	if i++; i == uint64(len(slots)) {
		return 0
	}
	return i
}

// placeSlot puts v into the first free slot from its own on, and returns the index.
func placeSlot(slots []uint64, v uint64) uint64 {
	i := firstSlot(slots, v)
	for slots[i] != 0 {
		i = nextSlot(slots, i)
	}
	slots[i] = v
	return i
}

// lister returns the run that lists engineHash where a slot points, or nil if the slot is stale
// or of another engine hash.
func (t *blockTable) lister(slot, engineHash uint64) *run {
	r := t.runs.run(slotHandle(slot)).Load()
	if r == nil {
		return nil
	}
	listed := r.listed()
	if i := int(slotOffset(slot)); i >= len(listed) || listed[i] != engineHash {
		return nil
	}
	return r
}

// find returns the block of an engine hash; no run if there is none. A run that the caller does
// not hold may die meanwhile.
func (t *blockTable) find(engineHash uint64) (r *run, offset uint32) {
	hash := t.hash(engineHash)
	lock := &t.locks[hash%readLocks]
	lock.RLock()
	defer lock.RUnlock()
	slots := t.stripe(hash).slots
	i := firstSlot(slots, hash)
	for range slots {
		v := atomic.LoadUint64(&slots[i])
		if v == 0 {
			break
		}
		if (v^hash)&tagMask == 0 {
			if r := t.lister(v, engineHash); r != nil {
				return r, slotOffset(v)
			}
		}
		i = nextSlot(slots, i)
	}
	return nil, 0
}

// insertLocked inserts the engine hashes of the blocks that the run has got since the last
// call. The run is locked.
func (t *blockTable) insertLocked(r *run) {
	listed := r.listed()
	for n := r.view.Load().n.Load(); r.inserted < n; {
		end := min(n, r.inserted+insertBatch)
		duplicates := t.insert(r.handle, r.inserted, listed[r.inserted:end])
		for ; duplicates != 0; duplicates &= duplicates - 1 {
			setBit(&r.duplicates, r.inserted+uint32(bits.TrailingZeros64(duplicates)))
		}
		r.inserted = end
	}
}

// invalidateLocked makes the slots of a run's blocks from an offset on stale. The run is
// locked.
func (t *blockTable) invalidateLocked(r *run, from uint32) {
	if from >= r.inserted {
		return
	}
	slots := int(r.inserted - from)
	for i := range r.duplicates {
		keep := uint64(0)
		if end := int(from) - 64*i; end > 0 {
			keep = bitRange(0, 0, min(end, 64))
		}
		slots -= bits.OnesCount64(r.duplicates[i] &^ keep)
		r.duplicates[i] &= keep
	}
	r.inserted = from
	if r.handle == 0 {
		return
	}
	t.runs.inserted(r.handle).Store(from)
	if t.live.Add(-int64(slots)); t.sparse() {
		t.sweep(false)
	}
}

// insert gives the engine hashes of the blocks from an offset of a run on their slots, and
// returns a bit for each that has one already.
func (t *blockTable) insert(handle, offset uint32, engineHashes []uint64) (duplicates uint64) {
	if handle == 0 {
		return bitRange(0, 0, len(engineHashes))
	}
	done := 0
	for {
		full := t.crowded()
		if !full {
			n, d := t.insertStripe(handle, offset+uint32(done), engineHashes[done:])
			duplicates |= d << done
			if done += n; done == len(engineHashes) {
				break
			}
		}
		if !t.sweep(!full) {
			duplicates |= bitRange(0, done, len(engineHashes)) // the table has its full size
			break
		}
	}
	return duplicates
}

// crowded reports whether another batch may make probing long.
func (t *blockTable) crowded() bool { return t.used.Load()+insertBatch > t.slots.Load()*3/4 }

// sparse reports whether a sweep would give most of the memory back.
func (t *blockTable) sparse() bool {
	slots := t.slots.Load()
	return t.live.Load()*8 < slots && slots > blockStripes*stripeSlotsMin
}

// insertStripe inserts until a stripe is full. It returns the number of engine hashes that it
// came to, and a bit for each of them that had a slot.
func (t *blockTable) insertStripe(
	handle, offset uint32, engineHashes []uint64,
) (n int, duplicates uint64) {
	base := uint64(handle)<<(tagBits+offsetBits) | uint64(offset)<<tagBits
	t.insertMu.Lock()
	if n = insertVector(t, engineHashes, base); n < len(engineHashes) {
		n, duplicates = t.insertEach(n, engineHashes, base)
	}
	filled := n - bits.OnesCount64(duplicates)
	t.runs.inserted(handle).Store(offset + uint32(n))
	t.used.Store(t.used.Load() + int64(filled))
	t.insertMu.Unlock()
	t.live.Add(int64(filled))
	return n, duplicates
}

// insertEach is insertStripe from the n-th engine hash on, one by one.
func (t *blockTable) insertEach(
	n int, engineHashes []uint64, base uint64,
) (_ int, duplicates uint64) {
	var hashes [insertBatch]uint64
	for i := n; i < len(engineHashes); i++ {
		hashes[i] = t.hash(engineHashes[i])
	}
	// Prefetches the slots: the less code is between two cache misses, the more of them
	// overlap.
	for _, hash := range hashes[n:len(engineHashes)] {
		if slots := t.stripe(hash).slots; len(slots) > 0 {
			atomic.LoadUint64(&slots[firstSlot(slots, hash)]) // atomic, so the compiler keeps it
		}
	}
	for ; n < len(engineHashes); n++ {
		slots, v := t.stripe(hashes[n]).slots, base+uint64(n)<<tagBits|hashes[n]&tagMask
		ok, full := t.insertOne(slots, v, engineHashes[n])
		if full {
			break
		}
		if !ok {
			duplicates |= 1 << n
		}
	}
	return n, duplicates
}

// insertOne puts v into the first free slot. It is not ok if the engine hash has a slot.
func (t *blockTable) insertOne(slots []uint64, v, engineHash uint64) (ok, full bool) {
	i := firstSlot(slots, v)
	for range slots {
		s := &slots[i]
		old := atomic.LoadUint64(s)
		if old == 0 {
			atomic.StoreUint64(s, v)
			return true, false
		}
		if (old^v)&tagMask == 0 && t.lister(old, engineHash) != nil {
			return false, false
		}
		i = nextSlot(slots, i)
	}
	return false, true
}

// byteSize returns the bytes of the slots and the registry.
func (t *blockTable) byteSize() int64 { return 8*t.slots.Load() + t.runs.byteSize() }

// growth returns the bytes that the table grows by, where memory is low, for n more blocks.
func (t *blockTable) growth(n int64) int64 {
	slots := t.slots.Load()
	if t.used.Load()+n+insertBatch <= slots*3/4 {
		return 0
	}
	return 8 * max(blockStripes*stripeSlotsMin-slots, (t.live.Load()+n)*8/5-slots, 0)
}
