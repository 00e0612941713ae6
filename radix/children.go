package radix

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// children maps (run, offset, hash) to the run that goes on there, for the whole index. Look-ups take no lock. Stripes are picked
// by the whole key, so they stay balanced even when every chain begins with the same block.
type children struct {
	stripes []stripe
	shift   uint
	key     uint64
	slots   atomic.Int64 // of all stripes
}

// cacheLine is 64 bytes on x86-64 and most arm64; neighbours' locks must not share one.
const cacheLine = 64

type stripe struct {
	mu    sync.Mutex
	live  int // runs; guarded by mu
	used  int // slots that are not free; guarded by mu
	slots atomic.Pointer[[]slot]
	_     [cacheLine - 32]byte
}

// slot is a place in the table. The tag spares look-ups the sight of strangers: it is the key's hash, or one of these.
type slot struct {
	tag  atomic.Uint64
	face atomic.Pointer[face] // set before the tag
}

const (
	tagFree = 0
	tagGone = 1 // probing goes on behind it
	tagged  = 2 // set in all hashes

	stripeMin = 4 // slots; one cache line
)

func (c *children) init(stripes int, key uint64) {
	n := 1 << bits.Len(uint(stripes-1))
	c.stripes = make([]stripe, n)
	c.shift = uint(64 - bits.TrailingZeros(uint(n)))
	c.key = key
	for i := range c.stripes {
		c.stripes[i].slots.Store(new([]slot))
	}
}

// hash spreads a key: the high bits pick the stripe, low ones the slot, and six in between the bit in the parent's face.
func (c *children) hash(parent uint64, offset uint32, first Hash) uint64 {
	return keyed.Fold(uint64(first)^c.key, (parent<<20^uint64(offset))*spread^c.key) | tagged
}

// kidBit returns the bit of a child in its parent's face.
func kidBit(hash uint64) uint64 { return 1 << (hash >> 32 & 63) }

// home returns the first slot to look at.
func home(hash, mask uint64) uint64 { return hash >> 2 & mask }

func (f *face) is(parent uint64, offset uint32, first Hash) bool {
	return f.parent == parent && f.offset == offset && f.all()[0] == first
}

// fetch brings the slot where find begins into the cache. To fetch the face as well was slower: it waits for the slot.
func (c *children) fetch(parent *face, offset uint32, first Hash) {
	h := c.hash(parent.id, offset, first)
	if parent.kids.Load()&kidBit(h) == 0 {
		return
	}
	if slots := *c.stripes[h>>c.shift].slots.Load(); len(slots) > 0 {
		slots[home(h, uint64(len(slots)-1))].tag.Load() // is not optimized away: it is atomic
	}
}

// find returns the face of the run that continues parent at offset with first, or nil.
func (c *children) find(parent *face, offset uint32, first Hash) *face {
	h := c.hash(parent.id, offset, first)
	if parent.kids.Load()&kidBit(h) == 0 {
		return nil
	}
	slots := *c.stripes[h>>c.shift].slots.Load()
	if len(slots) == 0 {
		return nil
	}
	mask := uint64(len(slots) - 1)
	for i := home(h, mask); ; i = (i + 1) & mask {
		s := &slots[i]
		switch s.tag.Load() {
		case tagFree:
			return nil
		case h:
			if f := s.face.Load(); f != nil && f.is(parent.id, offset, first) {
				f.want()
				return f
			}
		}
	}
}

// put links f below parent, whose run is locked. A run with the same key, which must be dead, is replaced.
func (c *children) put(parent, f *face) {
	h := c.hash(f.parent, f.offset, f.all()[0])
	c.place(h, f)
	parent.kids.Store(parent.kids.Load() | kidBit(h))
}

func (c *children) place(h uint64, f *face) {
	s := &c.stripes[h>>c.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	// Three quarters at most, marks included, so that probing always meets a free one.
	if slots := *s.slots.Load(); (s.used+1)*4 > len(slots)*3 {
		c.slots.Add(s.resizeLocked())
	}
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := home(h, mask); ; i = (i + 1) & mask {
		at := &slots[i]
		switch at.tag.Load() {
		case tagFree:
			at.face.Store(f) // before the tag: a look-up that sees the tag must find a face
			at.tag.Store(h)
			s.used++
			s.live++
			return
		case h:
			if old := at.face.Load(); old.is(f.parent, f.offset, f.all()[0]) {
				at.face.Store(f)
				return
			}
		}
	}
}

// swap puts the new face of a run in the place of its old one, if the run is linked.
func (c *children) swap(old, f *face) { c.change(old.run, f) }

// remove unlinks r, unless another run has taken its place.
func (c *children) remove(r *run) { c.change(r, nil) }

func (c *children) change(r *run, f *face) {
	h := c.hash(r.face.Load().parent, r.offset, r.first)
	s := &c.stripes[h>>c.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := *s.slots.Load()
	if len(slots) == 0 {
		return
	}
	mask := uint64(len(slots) - 1)
	for i := home(h, mask); ; i = (i + 1) & mask {
		at := &slots[i]
		switch at.tag.Load() {
		case tagFree:
			return
		case h:
			if at.face.Load().run != r {
				continue
			}
			if f != nil {
				at.face.Store(f)
				return
			}
			at.tag.Store(tagGone) // before the face, for look-ups that come between; those that saw the tag check the face for nil
			at.face.Store(nil)
			s.live--
			if len(slots) > stripeMin && s.live*8 < len(slots) || s.live == 0 {
				c.slots.Add(s.resizeLocked())
			}
			return
		}
	}
}

// resizeLocked moves the runs to a new table of the right size, without marks, and returns by how many slots it is larger. Look-ups on the
// old one finish on it.
func (s *stripe) resizeLocked() (more int64) {
	old := *s.slots.Load()
	s.used = s.live
	if s.live == 0 && len(old) > 0 {
		s.slots.Store(new([]slot))
		return -int64(len(old))
	}
	// At most half full afterwards, and shrunk below an eighth: between the two no table is made anew for a store and a removal in turn.
	size := stripeMin
	for size < 2*(s.live+1) {
		size *= 2
	}
	fresh := make([]slot, size)
	mask := uint64(size - 1)
	for j := range old {
		h := old[j].tag.Load()
		if h == tagFree || h == tagGone {
			continue
		}
		i := home(h, mask)
		for fresh[i].tag.Load() != tagFree {
			i = (i + 1) & mask
		}
		fresh[i].face.Store(old[j].face.Load())
		fresh[i].tag.Store(h)
	}
	s.slots.Store(&fresh)
	return int64(size - len(old))
}

// each calls f for every linked run, in no order, with the stripe locked.
func (c *children) each(f func(*run)) {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		slots := *s.slots.Load()
		for j := range slots {
			if face := slots[j].face.Load(); face != nil {
				f(face.run)
			}
		}
		s.mu.Unlock()
	}
}
