package directory

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

const (
	leastSlots = 1 << 12
	// longestProbe bounds a look-up. A table that is seven eighths full has runs of some 60.
	longestProbe = 256
)

// table says for each page who holds it: a bit for each holder. One goroutine at a time writes, any number read without a lock: a slot has its page for as long as
// the table lives, also while nobody holds it, so that a reader never takes the bits of one page for those of another.
type table struct {
	cells  []uint64 // slots of 1 + words: the page, 0 for none, and its bits
	stride int
	shift  uint // from a scattered page to its slot
	used   int  // slots with a page
	dead   int  // of these, held by nobody
	mixed  uint64
}

// newTable returns a table of at least so many slots, for words × 64 holders.
func newTable(slots, words int) *table {
	slots = max(slots, leastSlots)
	log := bits.Len(uint(slots - 1))
	return &table{cells: make([]uint64, (1+words)<<log), stride: 1 + words, shift: uint(64 - log), mixed: rand.Uint64() | 1}
}

func (t *table) slots() int { return 1 << (64 - t.shift) }
func (t *table) words() int { return t.stride - 1 }
func (t *table) bytes() int { return 8 * len(t.cells) }

// pageKey is a page's name in the table, which is never 0.
func pageKey(page uint64) uint64 { return max(page, 1) }

// find returns the bits of a page; nil where it is not there. They are read and written atomically.
func (t *table) find(page uint64) []uint64 {
	page = pageKey(page)
	at := int(page*t.mixed>>t.shift) * t.stride
	for range longestProbe {
		switch atomic.LoadUint64(&t.cells[at]) {
		case page:
			return t.cells[at+1 : at+t.stride]
		case 0:
			return nil
		}
		if at += t.stride; at == len(t.cells) {
			at = 0
		}
	}
	return nil
}

// place returns the bits of a page, which it makes room for; nil: there is none.
func (t *table) place(page uint64) []uint64 {
	page = pageKey(page)
	at := int(page*t.mixed>>t.shift) * t.stride
	for range longestProbe {
		switch t.cells[at] {
		case page:
			return t.cells[at+1 : at+t.stride]
		case 0:
			if t.full() {
				return nil
			}
			t.used++
			t.dead++
			atomic.StoreUint64(&t.cells[at], page)
			return t.cells[at+1 : at+t.stride]
		}
		if at += t.stride; at == len(t.cells) {
			at = 0
		}
	}
	return nil
}

// full reports whether the table must be made anew before there is another page in it.
func (t *table) full() bool { return t.used >= t.slots()/8*7 }

// set notes that a holder has a page. It reports whether that is new.
func (t *table) set(held []uint64, holder int) bool {
	word, bit := &held[holder/64], uint64(1)<<(holder%64)
	if *word&bit != 0 {
		return false
	}
	if nobody(held) {
		t.dead--
	}
	atomic.StoreUint64(word, *word|bit)
	return true
}

// clear notes that a holder has a page no more. It reports whether that is new.
func (t *table) clear(held []uint64, holder int) bool {
	word, bit := &held[holder/64], uint64(1)<<(holder%64)
	if *word&bit == 0 {
		return false
	}
	atomic.StoreUint64(word, *word&^bit)
	if nobody(held) {
		t.dead++
	}
	return true
}

func nobody(held []uint64) bool {
	for _, w := range held {
		if w != 0 {
			return false
		}
	}
	return true
}

// forget takes a holder from all pages.
func (t *table) forget(holder int) {
	for at := 0; at < len(t.cells); at += t.stride {
		if t.cells[at] != 0 {
			t.clear(t.cells[at+1:at+t.stride], holder)
		}
	}
}

// copyTo copies the pages that somebody holds. It reports whether there was room for all.
func (t *table) copyTo(other *table) bool {
	for at := 0; at < len(t.cells); at += t.stride {
		held := t.cells[at+1 : at+t.stride]
		if t.cells[at] == 0 || nobody(held) {
			continue
		}
		to := other.place(t.cells[at])
		if to == nil {
			return false
		}
		other.dead--
		for i, w := range held {
			atomic.StoreUint64(&to[i], w)
		}
	}
	return true
}
