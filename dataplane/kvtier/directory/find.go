package directory

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"sync/atomic"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// known is what look-ups read. It is not changed once it is published, but for the atomic words of the table.
type known struct {
	table  *table
	models map[string][]group
}

// group is all holders of pages of one size and model, whatever their kinds.
type group struct {
	tokens int      // of a page
	any    []uint64 // bits of all
	by     []shown  // by bit
	memo   *memo    // nil: none for this size of pages
}

// shown is a holder as look-ups see it.
type shown struct {
	place, kind uint32
	open        bool
}

// What a look-up may take: some 0.5 ms each.
const (
	mostPages  = 1 << 15   // of a prompt
	mostHashed = 768 << 10 // bytes, of which each page has pageCost
	pageCost   = 96        // the digest before it, and what begins and ends a hash
)

// publishLocked makes what look-ups read of what is known.
func (x *Index) publishLocked() {
	type spot struct {
		place uint32
		model string
	}
	k := &known{table: x.table, models: map[string][]group{}}
	open := map[spot]int{}
	for _, h := range x.holders {
		if h != nil && h.Open {
			open[spot{x.places[h.node.name], h.Model}]++
		}
	}
	for bit, h := range x.holders {
		if h == nil || x.places[h.node.name] == 0 {
			continue
		}
		place := x.places[h.node.name]
		g := k.group(h.Model, h.Tokens)
		if g.any == nil {
			g.any, g.by, g.memo = make([]uint64, x.table.words()), make([]shown, len(x.holders)), x.memoFor(h.Tokens)
		}
		g.any[bit/64] |= 1 << (bit % 64)
		g.by[bit] = shown{place, uint32(h.ID ^ h.ID>>32), h.Open && open[spot{place, h.Model}] == 1}
	}
	if len(k.models) == 0 {
		k = nil
	}
	x.known.Store(k)
}

// group returns the group of a model's pages of a size, which it makes where there is none.
func (k *known) group(model string, tokens int) *group {
	list := k.models[model]
	for i := range list {
		if list[i].tokens == tokens {
			return &list[i]
		}
	}
	k.models[model] = append(list, group{tokens: tokens})
	return &k.models[model][len(list)]
}

// Stored implements route.Stores. Of a prompt that no tier knows it hashes one page; of one that is known, the pages that some tier holds from the
// first on, or less where it has hashed them before.
func (x *Index) Stored(dst []routing.TierMatch, a routing.TierQuery) []routing.TierMatch {
	k := x.known.Load()
	if k == nil || a.LoRA != "" {
		return dst
	}
	groups := k.models[a.Model]
	if len(groups) == 0 {
		return dst
	}
	x.count.lookups.Add(1)
	had, most := len(dst), 0
	for i := range groups {
		g := &groups[i]
		w := walk{table: k.table, group: g, tokens: a.Tokens, pages: min(len(a.Tokens)/g.tokens, mostPages), most: mostHashed / (pageCost + 4*g.tokens)}
		if a.Salt != "" {
			w.digest, w.seeded = seed(a.Salt), true
			w.key = binary.LittleEndian.Uint64(w.digest[:])
		}
		dst = w.run(dst)
		most = max(most, w.at*g.tokens)
		x.count.hashed.Add(uint64(w.hashed))
		x.count.kept.Add(uint64(w.kept))
	}
	if len(dst) > had {
		x.count.hits.Add(1)
		x.count.tokens.Add(uint64(most))
	}
	return dst
}

// seed is what stands before the first page of prompts with a cache salt: storage_namespace_seed in SGLang's mem_cache/utils.py.
func seed(salt string) [32]byte {
	var room [256]byte
	b := append(room[:0], "sglang-cache-namespace-v1\x00\x01"...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(salt)))
	return sha256.Sum256(append(b, salt...))
}

// walk goes along a prompt as far as somebody holds its pages.
type walk struct {
	table  *table
	group  *group
	tokens []uint32
	pages  int // of the prompt
	at     int // pages that somebody holds

	key    uint64   // of the stretches before at: see memo
	digest [32]byte // of the page before at
	seeded bool     // it counts for the first page, too
	alive  [mostHolders / 64]uint64
	words  int

	hashed, kept int
	most         int // pages that may be hashed
	room         [32 + 4*longestPage]byte
}

// run appends what each holder has.
func (w *walk) run(dst []routing.TierMatch) []routing.TierMatch {
	w.words = copy(w.alive[:], w.group.any)
	m, more := w.group.memo, true
	var names [mostStretch]uint64
	for more && w.at < w.pages {
		if w.hashed >= w.most {
			break // in doubt less is said; what was hashed is remembered, and the next look-up gets further
		}
		if m == nil || w.pages-w.at < m.pages {
			dst, more = w.step(dst, w.hash())
			continue
		}
		w.key = m.next(w.key, w.tokens[w.at*w.group.tokens:][:m.tokens])
		if m.recall(w.key, &names, &w.digest) {
			w.kept += m.pages
			for i := 0; i < m.pages && more; i++ {
				dst, more = w.step(dst, names[i])
			}
			continue
		}
		for i := 0; i < m.pages && more; i++ {
			names[i] = w.hash()
			dst, more = w.step(dst, names[i])
		}
		if more {
			m.keep(w.key, &names, &w.digest)
		}
	}
	if !more || w.at == 0 {
		return dst
	}
	for word := range w.words {
		for left := w.alive[word]; left != 0; left &= left - 1 {
			dst = w.emit(dst, 64*word+bits.TrailingZeros64(left))
		}
	}
	return dst
}

// step looks who holds the next page, and appends who does not, with all pages before. It reports whether anybody does.
func (w *walk) step(dst []routing.TierMatch, name uint64) ([]routing.TierMatch, bool) {
	held := w.table.find(name)
	if len(held) == 1 && w.alive[0]&^atomic.LoadUint64(&held[0]) == 0 { // Fast path: all that are left, of few nodes.
		w.at++
		return dst, true
	}
	return w.stepSlow(dst, held)
}

func (w *walk) stepSlow(dst []routing.TierMatch, held []uint64) ([]routing.TierMatch, bool) {
	left := uint64(0)
	var now [mostHolders / 64]uint64
	for i := range held {
		now[i] = w.alive[i] & atomic.LoadUint64(&held[i])
		left |= now[i]
	}
	if left == 0 && w.at == 0 {
		return dst, false // nobody has anything: not even empty shelves are told of
	}
	for i := range w.words {
		for gone := w.alive[i] &^ now[i]; gone != 0; gone &= gone - 1 {
			dst = w.emit(dst, 64*i+bits.TrailingZeros64(gone))
		}
		w.alive[i] = now[i]
	}
	if left != 0 {
		w.at++
	}
	return dst, left != 0
}

// emit appends what a holder has: the pages before the present one.
func (w *walk) emit(dst []routing.TierMatch, bit int) []routing.TierMatch {
	s := &w.group.by[bit]
	if w.at == 0 && !s.open {
		return dst
	}
	return append(dst, routing.TierMatch{Place: s.place, Tokens: w.at * w.group.tokens, Kind: s.kind, Open: s.open})
}

// hash names the page that follows the last one hashed.
func (w *walk) hash() uint64 {
	b := w.room[:0]
	if w.at > 0 || w.seeded {
		b = append(b, w.digest[:]...)
	}
	for _, id := range w.tokens[w.at*w.group.tokens : (w.at+1)*w.group.tokens] {
		b = binary.LittleEndian.AppendUint32(b, id)
	}
	w.digest = sha256.Sum256(b)
	w.hashed++
	return binary.BigEndian.Uint64(w.digest[:8])
}
