package openai

import (
	"math/bits"
	"sync"
)

// longMemory is room for the ids of a prompt that is too long for it to stay with a Request.
type longMemory struct{ ids []uint32 }

// longMemories are by size: the first ones hold twice keptIDs, and those after twice the ones before, up to 32 Mi ids. New memory would be
// cleared for each such prompt, which is a tenth of the CPU of proxying it, and collected.
var longMemories [7]sync.Pool // of *longMemory

// reserve sees to it that n more ids need no memory of their own, if all of them are too many for it to stay; others grow as they come.
func (r *Request) reserve(n int) {
	need := len(r.InputIDs) + n + groupIDs
	class := bits.Len(uint(need-1)/keptIDs) - 1
	if need <= max(keptIDs, cap(r.InputIDs)) || class >= len(longMemories) {
		return
	}
	m, ok := longMemories[class].Get().(*longMemory)
	if !ok {
		m = &longMemory{make([]uint32, 0, 2*keptIDs<<class)}
	}
	ids := m.ids[:copy(m.ids[:cap(m.ids)], r.InputIDs)]
	r.giveBack()
	r.long, r.InputIDs = m, ids
}

// giveBack ends the use of long memory.
func (r *Request) giveBack() {
	if r.long != nil {
		longMemories[bits.Len(uint(cap(r.long.ids))/keptIDs)-2].Put(r.long)
		r.long = nil
	}
}
