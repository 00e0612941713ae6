package radix

import (
	"sync"
	"sync/atomic"
)

// places maps engine hashes to places, once for all workers: what a worker holds under the name that its run lists costs it a bit and
// no entry. A name has one place here, and a place one name; who uses others keeps them in a table of its own, see engines.
//
// A slot is one word. It has no key: the run at the handle lists it, and the tag spares most of those looks. As the tag also
// says where the slot belongs, slots move without a look at the run.
//
//	63       38 37       20 19      0
//	[  handle  ] [  offset  ] [  tag  ]
type places struct {
	stripes [placeStripes]placeStripe
	key     uint64
	slots   atomic.Int64 // of all stripes, for Stats

	mu   sync.Mutex
	free []uint32                                  // handles to reuse; guarded by mu
	last uint32                                    // the highest handle so far; guarded by mu
	runs atomic.Pointer[[]*[handleChunk]runHandle] // by handle, 0 never used; replaced under mu
}

type runHandle = atomic.Pointer[run]

const (
	tagBits    = 20 // and the most slots of a stripe: 200 M names in all
	tagMask    = 1<<tagBits - 1
	offsetBits = 18 // maxRun blocks
	maxHandle  = 1<<(64-tagBits-offsetBits) - 1

	// placeStripes is four locks for each core of a large router: names spread evenly, so writers seldom meet.
	placeStripes = 1 << placeShift
	placeShift   = 8
	handleChunk  = 1 << 10 // 8 KiB
	placeMin     = 8       // slots; one cache line
)

type placeStripe struct {
	mu    sync.Mutex
	len   int                             // slots in use; guarded by mu
	slots atomic.Pointer[[]atomic.Uint64] // a power of two, or none; 0 is free. Only fetch reads it without mu
	_     [cacheLine - 24]byte
}

func (p *places) init(key uint64) {
	p.key = key
	p.runs.Store(&[]*[handleChunk]runHandle{})
	for i := range p.stripes {
		p.stripes[i].slots.Store(new([]atomic.Uint64))
	}
}

func (p *places) hash(name uint64) uint64 { return fold(name^p.key, spread) }

func (p *places) stripe(hash uint64) *placeStripe { return &p.stripes[hash>>(64-placeShift)] }

func (p *places) run(slot uint64) *run {
	h := slot >> (tagBits + offsetBits)
	return (*p.runs.Load())[h/handleChunk][h%handleChunk].Load()
}

func slotOffset(slot uint64) uint32 { return uint32(slot>>tagBits) & (1<<offsetBits - 1) }

// findLocked returns the index of a name's slot, or that of the free one where it belongs.
func (p *places) findLocked(slots []atomic.Uint64, hash, name uint64) (i uint64, ok bool) {
	tag, mask := hash&tagMask, uint64(len(slots)-1)
	for i = tag & mask; ; i = (i + 1) & mask {
		v := slots[i].Load()
		if v == 0 {
			return i, false
		}
		if v&tagMask == tag && p.run(v).content.Load().names[slotOffset(v)] == name {
			return i, true
		}
	}
}

// batch is how many names are fetched at a time: misses that do not depend on each other overlap, and 32 names of 8 bytes stay in the first-level cache.
const batch = 32

// fetch reads where names belong, which brings these slots into the cache side by side. Later, each under a lock of its own, they
// would come one after the other: a lock lets no load pass.
func (p *places) fetch(names []uint64) {
	for _, name := range names {
		hash := p.hash(name)
		if slots := *p.stripe(hash).slots.Load(); len(slots) > 0 {
			slots[hash&tagMask&uint64(len(slots)-1)].Load() // is not optimized away: it is atomic
		}
	}
}

// find returns the place of a name, or nil. A run that the caller does not hold may die meanwhile.
func (p *places) find(name uint64) (r *run, offset uint32) {
	hash := p.hash(name)
	s := p.stripe(hash)
	s.mu.Lock()
	if slots := *s.slots.Load(); len(slots) > 0 {
		if i, ok := p.findLocked(slots, hash, name); ok {
			v := slots[i].Load()
			r, offset = p.run(v), slotOffset(v)
		}
	}
	s.mu.Unlock()
	return r, offset
}

// claim gives a name, which the run lists at offset, its place, unless it has one.
func (p *places) claim(handle, offset uint32, name uint64) bool {
	hash := p.hash(name)
	s := p.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	// Three quarters full at most, as in engines.
	slots := *s.slots.Load()
	if (s.len+1)*4 > len(slots)*3 {
		if len(slots) > tagMask {
			return false
		}
		slots = s.resizeLocked(p, max(placeMin, 2*len(slots)))
	}
	i, taken := p.findLocked(slots, hash, name)
	if taken {
		return false
	}
	slots[i].Store(uint64(handle)<<(tagBits+offsetBits) | uint64(offset)<<tagBits | hash&tagMask)
	s.len++
	return true
}

// disclaim frees the slot of a name that claim gave to (handle, offset).
func (p *places) disclaim(handle, offset uint32, name uint64) {
	hash := p.hash(name)
	s := p.stripe(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	i := hash & tagMask & mask
	for want := uint64(handle)<<offsetBits | uint64(offset); slots[i].Load()>>tagBits != want; {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; ; j = (j + 1) & mask {
		v := slots[j].Load()
		if v == 0 {
			break
		}
		// The follower may move to i if its home is not in (i, j].
		if (j-v)&mask >= (j-i)&mask {
			slots[i].Store(v)
			i = j
		}
	}
	slots[i].Store(0)
	s.len--
	switch {
	case s.len == 0:
		s.resizeLocked(p, 0)
	case len(slots) > placeMin && s.len*8 < len(slots):
		s.resizeLocked(p, len(slots)/2)
	}
}

func (s *placeStripe) resizeLocked(p *places, n int) []atomic.Uint64 {
	old := *s.slots.Load()
	p.slots.Add(int64(n - len(old)))
	fresh := make([]atomic.Uint64, n)
	mask := uint64(n - 1)
	for j := range old {
		v := old[j].Load()
		if v == 0 {
			continue
		}
		i := v & mask
		for fresh[i].Load() != 0 {
			i = (i + 1) & mask
		}
		fresh[i].Store(v)
	}
	s.slots.Store(&fresh)
	return fresh
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
	runs := *p.runs.Load()
	if int(r.handle/handleChunk) == len(runs) {
		// Readers of the shorter slice never look behind its end.
		runs = append(runs, new([handleChunk]runHandle))
		p.runs.Store(&runs)
	}
	runs[r.handle/handleChunk][r.handle%handleChunk].Store(r)
}

// delist takes the handle of a run without claims back. The run keeps it, to no use: it is dead.
func (p *places) delist(r *run) {
	if r.handle == 0 {
		return
	}
	(*p.runs.Load())[r.handle/handleChunk][r.handle%handleChunk].Store(nil)
	p.mu.Lock()
	p.free = append(p.free, r.handle)
	p.mu.Unlock()
}

// claimLocked claims the names of the blocks that came to the run since.
func (x *Index) claimLocked(r *run) {
	c := r.content.Load()
	first, n := r.claimed, c.n.Load()
	for ; r.claimed < n; r.claimed++ {
		if r.claimed%batch == 0 || r.claimed == first {
			x.places.fetch(c.names[r.claimed:min(n, (r.claimed/batch+1)*batch)])
		}
		if r.handle > 0 && x.places.claim(r.handle, r.claimed, c.names[r.claimed]) {
			continue
		}
		for uint32(len(r.unnamed)) <= r.claimed/64 {
			r.unnamed = append(r.unnamed, 0)
		}
		r.unnamed[r.claimed/64] |= 1 << (r.claimed % 64)
	}
}

// disclaimLocked gives the claims of the blocks from an offset on up.
func (x *Index) disclaimLocked(r *run, from uint32) {
	c := r.content.Load()
	for i := from; i < r.claimed; i++ {
		if i%batch == 0 || i == from {
			x.places.fetch(c.names[i:min(r.claimed, (i/batch+1)*batch)])
		}
		if r.named(i, c.names[i]) {
			x.places.disclaim(r.handle, i, c.names[i])
		}
	}
	r.claimed = min(r.claimed, from)
	for i := range r.unnamed {
		switch from := int(from) - 64*i; {
		case from <= 0:
			r.unnamed[i] = 0
		case from < 64:
			r.unnamed[i] &= 1<<from - 1
		}
	}
}

// named reports whether name has its place at an offset of the run, which is locked.
func (r *run) named(offset uint32, name uint64) bool {
	return offset < r.claimed && r.content.Load().names[offset] == name && !bit(r.unnamed, offset)
}

func bit(words []uint64, i uint32) bool {
	return int(i/64) < len(words) && words[i/64]>>(i%64)&1 == 1
}
