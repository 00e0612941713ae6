package directory

import (
	"math/bits"
	"sync/atomic"
)

const (
	minSlots = 1 << 12
	// maxProbe bounds a lookup. A table that is seven eighths full has runs of some 60.
	maxProbe = 256
)

// table maps pages to their holders, one bit each. One goroutine at a time writes, and any number
// reads without a lock: a slot keeps its page for the life of the table, also without holders, so
// that a reader never takes the bits of one page for those of another.
type table struct {
	cells      []uint64 // slots of 1 + words: the page, 0 for none, and its bits
	stride     int
	shift      uint // from a multiplied page name to its slot
	used       int  // slots with a page
	unheld     int  // of these, pages without a holder
	multiplier uint64
}

// newTable returns a table of at least the given slots, for words × 64 holders. The random number
// spreads the pages.
func newTable(slots, words int, random uint64) *table {
	slots = max(slots, minSlots)
	log := bits.Len(uint(slots - 1))
	return &table{cells: make([]uint64, (1+words)<<log), stride: 1 + words, shift: uint(64 - log), multiplier: random | 1}
}

func (t *table) slots() int { return 1 << (64 - t.shift) }
func (t *table) words() int { return t.stride - 1 }
func (t *table) bytes() int { return 8 * len(t.cells) }

// pageKey is the page's name in the table, which is never 0.
func pageKey(page uint64) uint64 { return max(page, 1) }

// find returns the bits of a page, which are read and written atomically, or nil where it is
// absent.
func (t *table) find(page uint64) []uint64 {
	page = pageKey(page)
	at := int(page*t.multiplier>>t.shift) * t.stride
	for range maxProbe {
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

// insert returns the bits of a page, which it adds where it is absent. nil: the table is full.
func (t *table) insert(page uint64) []uint64 {
	page = pageKey(page)
	at := int(page*t.multiplier>>t.shift) * t.stride
	for range maxProbe {
		switch t.cells[at] {
		case page:
			return t.cells[at+1 : at+t.stride]
		case 0:
			if t.full() {
				return nil
			}
			t.used++
			t.unheld++
			atomic.StoreUint64(&t.cells[at], page)
			return t.cells[at+1 : at+t.stride]
		}
		if at += t.stride; at == len(t.cells) {
			at = 0
		}
	}
	return nil
}

// full reports whether the table must grow before another page.
func (t *table) full() bool { return t.used >= t.slots()/8*7 }

// set adds a holder to a page. It reports whether that is new.
func (t *table) set(held []uint64, holder int) bool {
	word, bit := &held[holder/64], uint64(1)<<(holder%64)
	if *word&bit != 0 {
		return false
	}
	if noHolder(held) {
		t.unheld--
	}
	atomic.StoreUint64(word, *word|bit)
	return true
}

// clear removes a holder from a page. It reports whether that is new.
func (t *table) clear(held []uint64, holder int) bool {
	word, bit := &held[holder/64], uint64(1)<<(holder%64)
	if *word&bit == 0 {
		return false
	}
	atomic.StoreUint64(word, *word&^bit)
	if noHolder(held) {
		t.unheld++
	}
	return true
}

func noHolder(held []uint64) bool {
	for _, w := range held {
		if w != 0 {
			return false
		}
	}
	return true
}

// removeHolder removes a holder from all pages.
func (t *table) removeHolder(holder int) {
	for at := 0; at < len(t.cells); at += t.stride {
		if t.cells[at] != 0 {
			t.clear(t.cells[at+1:at+t.stride], holder)
		}
	}
}

// copyTo copies all pages with holders. It reports whether there was room for them.
func (t *table) copyTo(other *table) bool {
	for at := 0; at < len(t.cells); at += t.stride {
		held := t.cells[at+1 : at+t.stride]
		if t.cells[at] == 0 || noHolder(held) {
			continue
		}
		to := other.insert(t.cells[at])
		if to == nil {
			return false
		}
		other.unheld--
		for i, w := range held {
			atomic.StoreUint64(&to[i], w)
		}
	}
	return true
}
