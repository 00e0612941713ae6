package radix

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// places maps engine hashes to places, once for all workers: what a worker holds under the name that its run lists costs it a bit and
// no entry. A name has one place here, and a place one name; who uses others keeps them in a table of its own, see engines.
//
// A slot is one word. It has no key: the run at the handle lists it, and the tag spares most of those looks. As the tag also
// says where the slot belongs, slots move without a look at the run.
//
//	63       38 37       20 19      0
//	[  handle  ] [  offset  ] [  tag  ]
//
// Slots are only ever filled, by one writer at a time for a batch of names, so a name is never claimed twice: a lock for a microsecond and
// plain stores take a third less than a compare-and-swap for each, which the next miss must wait for. Giving a claim up touches no slot. It
// turns stale, because its run is gone or no longer lists it there, and stale ones go when their stripe is swept: one pass in order, where
// each by itself would be a miss.
//
// Looking needs a gate for reading. Sweeping needs all of them for writing, and that nobody fills.
type places struct {
	stripes [placeStripes]placeStripe
	gates   [placeGates]placeGate
	key     uint64

	tight func(bytes int64) bool // whether to grow by so much would exceed the budget

	slots atomic.Int64 // of all stripes
	used  atomic.Int64 // of these not free; written under filling
	live  atomic.Int64 // of these not stale

	sweeping sync.Mutex // held through a sweep of all stripes
	packing  []uint64   // memory for a stripe; guarded by sweeping

	_       [cacheLine]byte
	filling sync.Mutex // held while slots are written
	_       [cacheLine]byte

	mu      sync.Mutex
	free    []uint32                      // handles to reuse; guarded by mu
	retired []uint32                      // handles that stale slots may still name; guarded by mu
	last    uint32                        // the highest handle so far; guarded by mu
	runs    atomic.Pointer[[]*runHandles] // by handle, 0 never used; replaced under mu
}

// runHandles are the runs of some handles, and how many names of each may have slots: none of a run that is gone. Sweeps go by these counts,
// which lie close together, where the runs are scattered.
type runHandles struct {
	run     [handleChunk]atomic.Pointer[run]
	claimed [handleChunk]atomic.Uint32
}

const (
	tagBits    = 20 // and the most slots of a stripe: 200 M names in all
	tagMask    = 1<<tagBits - 1
	offsetBits = 18 // maxRun blocks
	maxHandle  = 1<<(64-tagBits-offsetBits) - 1

	placeStripes = 1 << placeShift
	placeShift   = 8
	handleChunk  = 1 << 10 // 16 KiB
	placeMin     = 2 * bucket

	// bucket is how many slots lie in a cache line. A stripe has whole ones.
	bucket = cacheLine / 8

	// placeGates is how many can look into the table without sharing a cache line.
	placeGates = 16
	// sweepAtOnce is how many stripes are swept while writers wait. Of a million names that is 0.2 ms.
	sweepAtOnce = 8

	// batch is how many names are fetched at a time, as many as bits in a word: misses that do not depend on each other overlap.
	batch = 64
)

// placeStripe is written to with filling and all gates locked; its slots with filling.
type placeStripe struct {
	slots []uint64 // 0 is free. Atomic but for sweeps
	_     [cacheLine - 24]byte
}

type placeGate struct {
	sync.RWMutex
	_ [cacheLine - 24]byte
}

func (p *places) init(key uint64) {
	p.key = key
	p.runs.Store(&[]*runHandles{})
}

func (p *places) hash(name uint64) uint64 { return keyed.Fold(name^p.key, spread) }

func (p *places) stripe(hash uint64) *placeStripe { return &p.stripes[hash>>(64-placeShift)] }

func (p *places) run(handle uint32) *atomic.Pointer[run] {
	return &(*p.runs.Load())[handle/handleChunk].run[handle%handleChunk]
}

func (p *places) claimed(handle uint32) *atomic.Uint32 {
	return &(*p.runs.Load())[handle/handleChunk].claimed[handle%handleChunk]
}

func slotHandle(slot uint64) uint32 { return uint32(slot >> (tagBits + offsetBits)) }
func slotOffset(slot uint64) uint32 { return uint32(slot>>tagBits) & (1<<offsetBits - 1) }

// first returns the index where probing for a slot, or a hash, begins: its tag as a share of all slots. So any number of them will do. Where
// claimRow looks at a cache line as one, it is the first of its line.
func first(slots []uint64, v uint64) uint64 {
	return v & tagMask * uint64(len(slots)) >> tagBits &^ around()
}

// after returns the index behind i.
func after(slots []uint64, i uint64) uint64 {
	if i++; i == uint64(len(slots)) {
		return 0
	}
	return i
}

// at returns the run that lists name where a slot says, or nil if the slot is stale or another's.
func (p *places) at(slot, name uint64) *run {
	r := p.run(slotHandle(slot)).Load()
	if r == nil {
		return nil
	}
	names := r.listed()
	if i := int(slotOffset(slot)); i >= len(names) || names[i] != name {
		return nil
	}
	return r
}

// find returns the place of a name, or nil. A run that the caller does not hold may die meanwhile.
func (p *places) find(name uint64) (r *run, offset uint32) {
	hash := p.hash(name)
	g := &p.gates[hash%placeGates]
	g.RLock()
	defer g.RUnlock()
	slots := p.stripe(hash).slots
	i := first(slots, hash)
	for range slots {
		v := atomic.LoadUint64(&slots[i])
		if v == 0 {
			break
		}
		if (v^hash)&tagMask == 0 {
			if r := p.at(v, name); r != nil {
				return r, slotOffset(v)
			}
		}
		i = after(slots, i)
	}
	return nil, 0
}

// claim gives names, which the run lists from an offset on, their places. It returns a bit for each that has one already.
func (p *places) claim(handle, offset uint32, names []uint64) (taken uint64) {
	if handle == 0 {
		return span(0, 0, len(names))
	}
	done := 0
	for {
		full := p.crowded()
		if !full {
			n, t := p.fill(handle, offset+uint32(done), names[done:])
			taken |= t << done
			if done += n; done == len(names) {
				break
			}
		}
		if !p.sweep(!full) {
			taken |= span(0, done, len(names)) // there are too many names
			break
		}
	}
	return taken
}

// crowded reports whether another batch may make probing long.
func (p *places) crowded() bool { return p.used.Load()+batch > p.slots.Load()*3/4 }

// idle reports whether a sweep would give most of the memory back.
func (p *places) idle() bool {
	slots := p.slots.Load()
	return p.live.Load()*8 < slots && slots > placeStripes*placeMin
}

// fill claims until a stripe is full, and returns how many it got to and which of these were taken.
func (p *places) fill(handle, offset uint32, names []uint64) (n int, taken uint64) {
	base := uint64(handle)<<(tagBits+offsetBits) | uint64(offset)<<tagBits
	p.filling.Lock()
	if n = p.claimRow(names, base); n < len(names) {
		n, taken = p.putRow(n, names, base)
	}
	filled := n - bits.OnesCount64(taken)
	p.claimed(handle).Store(offset + uint32(n))
	p.used.Store(p.used.Load() + int64(filled))
	p.filling.Unlock()
	p.live.Add(int64(filled))
	return n, taken
}

// putRow is fill for the names from the first ones on.
func (p *places) putRow(n int, names []uint64, base uint64) (_ int, taken uint64) {
	var hashes [batch]uint64
	for i := n; i < len(names); i++ {
		hashes[i] = p.hash(names[i])
	}
	// Brings the slots into the cache side by side. It is a loop of its own: the less there is between two misses, the more of them are
	// under way.
	for _, hash := range hashes[n:len(names)] {
		if slots := p.stripe(hash).slots; len(slots) > 0 {
			atomic.LoadUint64(&slots[first(slots, hash)]) // is not optimized away: it is atomic
		}
	}
	for ; n < len(names); n++ {
		ours, full := p.put(p.stripe(hashes[n]).slots, base+uint64(n)<<tagBits|hashes[n]&tagMask, names[n])
		if full {
			break
		}
		if !ours {
			taken |= 1 << n
		}
	}
	return n, taken
}

// put fills the first free slot for v, unless the name has a place or there is no slot.
func (p *places) put(slots []uint64, v, name uint64) (ours, full bool) {
	i := first(slots, v)
	for range slots {
		s := &slots[i]
		old := atomic.LoadUint64(s)
		if old == 0 {
			atomic.StoreUint64(s, v)
			return true, false
		}
		if (old^v)&tagMask == 0 && p.at(old, name) != nil {
			return false, false
		}
		i = after(slots, i)
	}
	return false, true
}

// disclaim makes the claims of a run from an offset on stale. There are given of them.
func (p *places) disclaim(handle, from uint32, given int) {
	if handle == 0 {
		return
	}
	p.claimed(handle).Store(from)
	if p.live.Add(-int64(given)); p.idle() {
		p.sweep(false)
	}
}

// enlist gives a run a handle. One that gets none, as there are too many, has no names here.
func (p *places) enlist(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.free); {
	case n > 0:
		r.handle = p.free[n-1]
		p.free = p.free[:n-1]
	case p.last < maxHandle:
		p.last++
		r.handle = p.last
	default:
		return
	}
	if runs := p.runs.Load(); int(r.handle/handleChunk) == len(*runs) {
		// Readers of the shorter slice never look behind its end.
		more := append(*runs, new(runHandles))
		p.runs.Store(&more)
	}
	p.run(r.handle).Store(r)
}

// delist takes the handle of a run without claims back. The run keeps it, to no use: it is dead.
func (p *places) delist(r *run) {
	if r.handle == 0 {
		return
	}
	p.run(r.handle).Store(nil)
	p.mu.Lock()
	p.retired = append(p.retired, r.handle)
	p.mu.Unlock()
}
