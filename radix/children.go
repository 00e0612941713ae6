package radix

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// children maps (run, offset, hash) to the run that goes on there, for the whole index. Look-ups take no lock. Stripes are picked
// by the whole key, so they stay balanced even when every chain begins with the same block.
type children struct {
	stripes []stripe
	shift   uint
	key     uint64
	gone    run // marks a slot whose run was removed: probing goes on behind it
}

// cacheLine is 64 bytes on x86-64 and most arm64; neighbours' locks must not share one.
const cacheLine = 64

type stripe struct {
	mu    sync.Mutex
	live  int // runs; guarded by mu
	used  int // slots that are not nil; guarded by mu
	slots atomic.Pointer[[]atomic.Pointer[run]]
	_     [cacheLine - 32]byte
}

const stripeMin = 8 // slots; one cache line

func (c *children) init(stripes int, key uint64) {
	n := 1 << bits.Len(uint(stripes-1))
	c.stripes = make([]stripe, n)
	c.shift = uint(64 - bits.TrailingZeros(uint(n)))
	c.key = key
	for i := range c.stripes {
		c.stripes[i].slots.Store(new([]atomic.Pointer[run]))
	}
}

// hash spreads a key: the high bits pick the stripe, the low ones the slot.
func (c *children) hash(parent *run, offset uint32, first Hash) uint64 {
	return fold(uint64(first)^c.key, (parent.id<<20^uint64(offset))*spread^c.key)
}

func (r *run) is(parent *run, offset uint32, first Hash) bool {
	return r.first == first && r.offset == offset && r.parent == parent
}

// find returns the run that continues parent at offset with first, or nil.
func (c *children) find(parent *run, offset uint32, first Hash) *run {
	h := c.hash(parent, offset, first)
	slots := *c.stripes[h>>c.shift].slots.Load()
	if len(slots) == 0 {
		return nil
	}
	mask := uint64(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		r := slots[i].Load()
		if r == nil {
			return nil
		}
		if r.is(parent, offset, first) {
			return r
		}
	}
}

// put links r. A run with the same key, which must be dead, is replaced.
func (c *children) put(r *run) {
	h := c.hash(r.parent, r.offset, r.first)
	s := &c.stripes[h>>c.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	// Three quarters at most, marks included, so that probing always meets a nil.
	if slots := *s.slots.Load(); (s.used+1)*4 > len(slots)*3 {
		s.resizeLocked(c)
	}
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	i := h & mask
	for {
		old := slots[i].Load()
		if old == nil {
			s.used++
			s.live++
			break
		}
		if old.is(r.parent, r.offset, r.first) {
			break
		}
		i = (i + 1) & mask
	}
	slots[i].Store(r)
}

// remove unlinks r, unless another run has taken its place.
func (c *children) remove(r *run) {
	h := c.hash(r.parent, r.offset, r.first)
	s := &c.stripes[h>>c.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := *s.slots.Load()
	if len(slots) == 0 {
		return
	}
	mask := uint64(len(slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		switch slots[i].Load() {
		case nil:
			return
		case r:
			slots[i].Store(&c.gone)
			s.live--
			if len(slots) > stripeMin && s.live*8 < len(slots) || s.live == 0 {
				s.resizeLocked(c)
			}
			return
		}
	}
}

// resizeLocked moves the runs to a new table of the right size, without marks. Look-ups on the old one finish on it.
func (s *stripe) resizeLocked(c *children) {
	old := *s.slots.Load()
	s.used = s.live
	if s.live == 0 && len(old) > 0 {
		s.slots.Store(new([]atomic.Pointer[run]))
		return
	}
	size := stripeMin
	for size < 2*(s.live+1) {
		size *= 2
	}
	fresh := make([]atomic.Pointer[run], size)
	mask := uint64(size - 1)
	for j := range old {
		r := old[j].Load()
		if r == nil || r == &c.gone {
			continue
		}
		i := c.hash(r.parent, r.offset, r.first) & mask
		for fresh[i].Load() != nil {
			i = (i + 1) & mask
		}
		fresh[i].Store(r)
	}
	s.slots.Store(&fresh)
}

// each calls f for every linked run, in no order, with the stripe locked.
func (c *children) each(f func(*run)) {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		slots := *s.slots.Load()
		for j := range slots {
			if r := slots[j].Load(); r != nil && r != &c.gone {
				f(r)
			}
		}
		s.mu.Unlock()
	}
}
