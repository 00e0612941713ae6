package mock

import (
	"math/bits"
)

// cache is a tree of pages, each named by a hash of itself and all before it. A page is in it only
// if the one before is; the least recently used page that nothing follows goes first.
type cache struct {
	page  int // tokens
	pages []page
	byKey map[uint64]int32
	free  []int32
	root  page // not a page: the ends of the list of leaves

	stored  []uint64 // hashes of the pages that the last insert added
	removed []uint64 // hashes of the pages that it evicted
}

// page is a slot. Leaves are in a list, the freshest first.
type page struct {
	key        uint64
	parent     int32 // slot, or none
	kids       int32
	next, prev int32 // among leaves; none is the list's end
}

// none is no slot: the prompt's beginning as a parent, the list's end as a neighbour.
const none = int32(-1)

func newCache(pageSize, pages int) *cache {
	c := &cache{page: pageSize, pages: make([]page, pages)}
	c.clear()
	return c
}

// clear empties the cache.
func (c *cache) clear() {
	c.byKey = make(map[uint64]int32, len(c.pages))
	c.free = c.free[:0]
	for i := range c.pages {
		c.free = append(c.free, int32(len(c.pages)-1-i))
	}
	c.root = page{next: none, prev: none}
}

// The hash is of the kind that random numbers are made by: two ids, a multiplication of 64 by 64
// bits, both halves. It need not withstand anyone. The odd constants are from the expansion of pi.
const (
	key1 = 0x243f6a8885a308d3
	key2 = 0x13198a2e03707345
)

// key names the page of ids that follows the page named parent.
func key(parent uint64, ids []uint32) uint64 {
	h := parent ^ key1
	for ; len(ids) > 1; ids = ids[2:] {
		hi, lo := bits.Mul64(h^(uint64(ids[0])|uint64(ids[1])<<32), key2)
		h = hi ^ lo ^ key1
	}
	if len(ids) == 1 {
		hi, lo := bits.Mul64(h^uint64(ids[0])^key2, key2)
		h = hi ^ lo
	}
	return h
}

// use looks a prompt up as an engine does (the last token is always computed), and inserts the
// whole pages of ids, which are prompt and answer without its last token, which an engine does not
// compute. It returns the number of cached tokens. Changes are in removed and in stored; those are
// behind the first pages, of which parent is the last.
func (c *cache) use(ids []uint32, prompt int) (cached, first int, parent int32) {
	c.stored, c.removed = c.stored[:0], c.removed[:0]
	whole := min(len(ids)/c.page, len(c.pages))
	at, k, i := none, uint64(0), 0
	for ; i < whole; i++ {
		k = key(k, ids[i*c.page:(i+1)*c.page])
		slot, ok := c.byKey[k]
		if !ok {
			break
		}
		at = slot
	}
	cached = min(i, (prompt-1)/c.page) * c.page
	if at != none {
		c.touch(at)
	}
	if first, parent = i, at; i == whole {
		return cached, first, parent
	}
	for {
		slot, ok := c.take(at)
		if !ok { // the rest of the cache is this prompt
			return cached, first, parent
		}
		c.link(slot, at, k)
		c.stored = append(c.stored, k)
		at = slot
		if i++; i == whole {
			return cached, first, parent
		}
		k = key(k, ids[i*c.page:(i+1)*c.page])
	}
}

// take returns a free slot for the page behind keep, without evicting keep.
func (c *cache) take(keep int32) (int32, bool) {
	if n := len(c.free); n > 0 {
		slot := c.free[n-1]
		c.free = c.free[:n-1]
		return slot, true
	}
	slot := c.root.prev
	if slot == keep {
		return none, false
	}
	c.drop(slot)
	return slot, true
}

// drop takes a leaf away. A parent that becomes a leaf by that has been used no later, so it is the
// next to go.
func (c *cache) drop(slot int32) {
	p := &c.pages[slot]
	c.unlist(slot)
	delete(c.byKey, p.key)
	c.removed = append(c.removed, p.key)
	if p.parent == none {
		return
	}
	parent := &c.pages[p.parent]
	if parent.kids--; parent.kids == 0 {
		c.list(p.parent, c.root.prev, none)
	}
}

// link makes slot the page k behind parent, and the freshest leaf.
func (c *cache) link(slot, parent int32, k uint64) {
	c.pages[slot] = page{key: k, parent: parent}
	c.byKey[k] = slot
	if parent != none {
		if p := &c.pages[parent]; p.kids == 0 {
			c.unlist(parent)
		}
		c.pages[parent].kids++
	}
	c.list(slot, none, c.root.next)
}

// touch makes a leaf the freshest.
func (c *cache) touch(slot int32) {
	if c.pages[slot].kids == 0 {
		c.unlist(slot)
		c.list(slot, none, c.root.next)
	}
}

// list puts slot between two neighbours.
func (c *cache) list(slot, prev, next int32) {
	p := &c.pages[slot]
	p.prev, p.next = prev, next
	c.at(prev).next = slot
	c.at(next).prev = slot
}

func (c *cache) unlist(slot int32) {
	p := &c.pages[slot]
	c.at(p.prev).next = p.next
	c.at(p.next).prev = p.prev
}

func (c *cache) at(slot int32) *page {
	if slot == none {
		return &c.root
	}
	return &c.pages[slot]
}

// name is how a slot is called in events.
func (c *cache) name(slot int32) (uint64, bool) {
	if slot == none {
		return 0, false
	}
	return c.pages[slot].key, true
}

// answerIDs appends the ids of an answer of n tokens: the same for every prompt, so that a client
// can repeat them in its next turn.
func answerIDs(dst []uint32, n int) []uint32 {
	for i := range n {
		dst = append(dst, firstAnswer+uint32(i)%answers)
	}
	return dst
}

// Ids of answers have five digits, so that they have one length in JSON.
const (
	firstAnswer = 50_000
	answers     = 1024
)

// AppendAnswer appends the ids of an answer of n tokens as JSON, without brackets.
func AppendAnswer(dst []byte, n int) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, firstAnswer+i%answers)
	}
	return dst
}

// Word is the text of each token of an answer.
const Word = "word"
