package directory

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/kvtier/proto"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// view is the part of the contents that lookups read. It is immutable, except for the atomic
// words of the table.
type view struct {
	table  *table
	models map[string][]pageGroup
}

// pageGroup is all holders of pages of one model and page size.
type pageGroup struct {
	pageSize int          // tokens
	all      []uint64     // bits of the holders
	holders  []holderView // by bit
	cache    *hashCache   // nil: none for this page size
}

// holderView is a holder, as lookups read it.
type holderView struct {
	node, kind uint32
	open       bool
}

// Bounds of a lookup: some 0.5 ms each.
const (
	maxPages  = 1 << 15   // of a prompt
	maxHashed = 768 << 10 // bytes, of which each page has pageCost
	pageCost  = 96        // previous hash, and the padding and setup of SHA-256
)

// group returns the group of a model and page size, which it adds where there is none.
func (v *view) group(model string, pageSize int) *pageGroup {
	list := v.models[model]
	for i := range list {
		if list[i].pageSize == pageSize {
			return &list[i]
		}
	}
	v.models[model] = append(list, pageGroup{pageSize: pageSize})
	return &v.models[model][len(list)]
}

// lookup walks along a prompt as far as any tier holds its pages.
type lookup struct {
	table  *table
	group  *pageGroup
	tokens []uint32
	pages  int // of the prompt
	at     int // leading pages that some tier holds

	key      uint64     // hashCache key of the segments before at
	hash     proto.Hash // of the page before at
	salted   bool       // hash counts for the first page too
	matching [maxHolders / 64]uint64
	words    int

	hashed, remembered int
	maxHashed          int // pages
	room               [32 + 4*maxPageSize]byte
}

// setSalt hashes the salt of the prompt's cache.
func (l *lookup) setSalt(salt string) {
	if salt != "" {
		l.hash, l.salted = proto.SaltSeed(salt), true
		l.key = binary.LittleEndian.Uint64(l.hash[:])
	}
}

// run appends the leading pages of each holder.
func (l *lookup) run(dst []routing.TierMatch) []routing.TierMatch {
	l.words = copy(l.matching[:], l.group.all)
	cache, more := l.group.cache, true
	var names [maxSegment]uint64
	for more && l.at < l.pages {
		if l.hashed >= l.maxHashed {
			break // credit less; the hashes are remembered, so the next lookup gets further
		}
		if cache == nil || l.pages-l.at < cache.pages {
			dst, more = l.step(dst, l.nextName())
			continue
		}
		l.key = cache.next(l.key, l.tokens[l.at*l.group.pageSize:][:cache.tokens])
		if cache.get(l.key, &names, &l.hash) {
			l.remembered += cache.pages
			for i := 0; i < cache.pages && more; i++ {
				dst, more = l.step(dst, names[i])
			}
			continue
		}
		for i := 0; i < cache.pages && more; i++ {
			names[i] = l.nextName()
			dst, more = l.step(dst, names[i])
		}
		if more {
			cache.put(l.key, &names, &l.hash)
		}
	}
	if !more || l.at == 0 {
		return dst
	}
	for word := range l.words {
		for left := l.matching[word]; left != 0; left &= left - 1 {
			dst = l.appendHolder(dst, 64*word+bits.TrailingZeros64(left))
		}
	}
	return dst
}

// step looks up the next page and appends the holders that lack it. It reports whether any has it.
func (l *lookup) step(dst []routing.TierMatch, name uint64) ([]routing.TierMatch, bool) {
	held := l.table.find(name)
	if len(held) == 1 && l.matching[0]&^atomic.LoadUint64(&held[0]) == 0 {
		// Fast path: all of at most 64 holders.
		l.at++
		return dst, true
	}
	return l.stepSlow(dst, held)
}

func (l *lookup) stepSlow(dst []routing.TierMatch, held []uint64) ([]routing.TierMatch, bool) {
	left := uint64(0)
	var now [maxHolders / 64]uint64
	for i := range held {
		now[i] = l.matching[i] & atomic.LoadUint64(&held[i])
		left |= now[i]
	}
	if left == 0 && l.at == 0 {
		return dst, false // no tier holds a page: open holders are not worth an entry
	}
	for i := range l.words {
		for lacking := l.matching[i] &^ now[i]; lacking != 0; lacking &= lacking - 1 {
			dst = l.appendHolder(dst, 64*i+bits.TrailingZeros64(lacking))
		}
		l.matching[i] = now[i]
	}
	if left != 0 {
		l.at++
	}
	return dst, left != 0
}

// appendHolder appends a holder of the pages before the present one.
func (l *lookup) appendHolder(dst []routing.TierMatch, bit int) []routing.TierMatch {
	h := &l.group.holders[bit]
	if l.at == 0 && !h.open {
		return dst
	}
	return append(dst, routing.TierMatch{Place: h.node, Tokens: l.at * l.group.pageSize, Kind: h.kind, Open: h.open})
}

// nextName hashes the page after the last hashed one and returns its name.
func (l *lookup) nextName() uint64 {
	b := l.room[:0]
	if l.at > 0 || l.salted {
		b = append(b, l.hash[:]...)
	}
	for _, id := range l.tokens[l.at*l.group.pageSize : (l.at+1)*l.group.pageSize] {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	l.hash = sha256.Sum256(b)
	l.hashed++
	return l.hash.Name()
}
