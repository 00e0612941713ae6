package radix

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// childTable maps (run, offset, hash) to the run that continues there, for the whole index.
// Look-ups take no lock. The whole key picks the stripe, so stripes stay balanced even if all
// chains begin with one block.
type childTable struct {
	stripes []childStripe
	shift   uint
	key     uint64
	slots   atomic.Int64 // of all stripes
}

// cacheLine is 64 bytes on x86-64 and most arm64; neighbouring locks must not share one.
const cacheLine = 64

type childStripe struct {
	mu    sync.Mutex
	live  int // runs; guarded by mu
	used  int // slots that are not free; guarded by mu
	slots atomic.Pointer[[]childSlot]
	_     [cacheLine - 32]byte
}

// childSlot is a slot of the hash table. Its tag is the key's hash or one of the constants
// below, so that look-ups rarely read the view of another run.
type childSlot struct {
	tag  atomic.Uint64
	view atomic.Pointer[runView] // set before the tag
}

const (
	tagFree = 0
	tagGone = 1 // deleted: probing continues
	tagged  = 2 // set in all hashes

	stripeMin = 4 // slots; one cache line
)

func (c *childTable) init(stripes int, key uint64) {
	n := 1 << bits.Len(uint(stripes-1))
	c.stripes = make([]childStripe, n)
	c.shift = uint(64 - bits.TrailingZeros(uint(n)))
	c.key = key
	for i := range c.stripes {
		c.stripes[i].slots.Store(new([]childSlot))
	}
}

// hash spreads a key: the high bits pick the stripe, the low ones the slot, six in between the
// bit in the parent's view.
func (c *childTable) hash(parent uint64, offset uint32, first Hash) uint64 {
	return keyed.Fold(uint64(first)^c.key, (parent<<20^uint64(offset))*spread^c.key) | tagged
}

// childBit returns the bit of a child in its parent's view.
func childBit(hash uint64) uint64 { return 1 << (hash >> 32 & 63) }

// home returns the slot where probing begins.
func home(hash, mask uint64) uint64 { return hash >> 2 & mask }

// find returns the view of the run that continues parent at offset with first, or nil.
func (c *childTable) find(parent *runView, offset uint32, first Hash) *runView {
	h := c.hash(parent.id, offset, first)
	if parent.childBits.Load()&childBit(h) == 0 {
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
			if v := s.view.Load(); v != nil && v.hasKey(parent.id, offset, first) {
				v.markReferenced()
				return v
			}
		}
	}
}

// insert links v below parent, whose run is locked. It replaces a run of the same key, which is
// dead.
func (c *childTable) insert(parent, v *runView) {
	h := c.hash(v.parent, v.offset, v.all()[0])
	c.insertSlot(h, v)
	parent.childBits.Store(parent.childBits.Load() | childBit(h))
}

func (c *childTable) insertSlot(h uint64, v *runView) {
	s := &c.stripes[h>>c.shift]
	s.mu.Lock()
	defer s.mu.Unlock()
	// At most three quarters are used, deleted slots included, so probing always meets a free
	// one.
	if slots := *s.slots.Load(); (s.used+1)*4 > len(slots)*3 {
		c.slots.Add(s.resizeLocked())
	}
	slots := *s.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := home(h, mask); ; i = (i + 1) & mask {
		at := &slots[i]
		switch at.tag.Load() {
		case tagFree:
			at.view.Store(v) // before the tag: a look-up that sees the tag needs a view
			at.tag.Store(h)
			s.used++
			s.live++
			return
		case h:
			if old := at.view.Load(); old.hasKey(v.parent, v.offset, v.all()[0]) {
				at.view.Store(v)
				return
			}
		}
	}
}

// replace puts the new view of a run into the slot of its old one, if the run is linked.
func (c *childTable) replace(old, v *runView) { c.update(old.run, v) }

// remove unlinks r, unless another run has replaced it.
func (c *childTable) remove(r *run) { c.update(r, nil) }

func (c *childTable) update(r *run, v *runView) {
	h := c.hash(r.view.Load().parent, r.offset, r.first)
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
			if at.view.Load().run != r {
				continue
			}
			if v != nil {
				at.view.Store(v)
				return
			}
			at.tag.Store(tagGone) // before the view; a look-up that has seen the tag checks for nil
			at.view.Store(nil)
			s.live--
			if len(slots) > stripeMin && s.live*8 < len(slots) || s.live == 0 {
				c.slots.Add(s.resizeLocked())
			}
			return
		}
	}
}

// resizeLocked moves the runs to a new table without deleted slots, and returns by how many
// slots it is larger. Look-ups on the old table finish there.
func (s *childStripe) resizeLocked() (more int64) {
	old := *s.slots.Load()
	s.used = s.live
	if s.live == 0 && len(old) > 0 {
		s.slots.Store(new([]childSlot))
		return -int64(len(old))
	}
	// The new table is at most half full, and shrinks below an eighth: alternating stores and
	// removals do not resize each time.
	size := stripeMin
	for size < 2*(s.live+1) {
		size *= 2
	}
	fresh := make([]childSlot, size)
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
		fresh[i].view.Store(old[j].view.Load())
		fresh[i].tag.Store(h)
	}
	s.slots.Store(&fresh)
	return int64(size - len(old))
}

// all calls f for every linked run, in no order, with the stripe locked.
func (c *childTable) all(f func(*run)) {
	for i := range c.stripes {
		s := &c.stripes[i]
		s.mu.Lock()
		slots := *s.slots.Load()
		for j := range slots {
			if v := slots[j].view.Load(); v != nil {
				f(v.run)
			}
		}
		s.mu.Unlock()
	}
}

// byteSize returns the bytes of the slots.
func (c *childTable) byteSize() int64 { return c.slots.Load() * int64(unsafe.Sizeof(childSlot{})) }
