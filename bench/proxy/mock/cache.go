package mock

import (
	"math/bits"
	"slices"

	"github.com/warmpath/warmpath/bench/lru"
)

// cache is pages, each named by a hash of itself and all before it. A page is always used later
// than those that follow it, so that the least recently used one is a page that nothing follows.
type cache struct {
	page  int // tokens
	most  int // pages
	pages *lru.Cache[uint64, struct{}]

	keys    []uint64 // of the prompt at hand
	stored  []uint64 // hashes of the pages that the last use added
	removed []uint64 // hashes of the pages that it evicted
}

func newCache(pageSize, pages int) *cache {
	c := &cache{page: pageSize, most: pages}
	c.clear()
	return c
}

// clear empties the cache.
func (c *cache) clear() { c.pages = lru.New[uint64, struct{}]() }

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
// behind the first held pages, of which parent is the last.
func (c *cache) use(ids []uint32, prompt int) (cached, held int, parent uint64) {
	c.keys, c.removed = c.keys[:0], c.removed[:0]
	k := uint64(0)
	for range min(len(ids)/c.page, c.most) {
		k = key(k, ids[len(c.keys)*c.page:][:c.page])
		c.keys = append(c.keys, k)
	}
	for _, k := range slices.Backward(c.keys) {
		if c.pages.Touch(k, struct{}{}) {
			held++ // a page is there only if the ones before are
		}
	}
	for _, e := range c.pages.Oldest(max(c.pages.Len()-c.most, 0)) {
		c.pages.Drop(e.Key)
		c.removed = append(c.removed, e.Key)
	}
	if c.stored = c.keys[held:]; held > 0 {
		parent = c.keys[held-1]
	}
	return min(held, (prompt-1)/c.page) * c.page, held, parent
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
