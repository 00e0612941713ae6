package tokenizer

// maxScan bounds the pieces that are merged by repeated search for the lowest rank. For longer ones
// the n²/2 comparisons cost more than a heap.
const maxScan = 64

// scratch are the buffers of one call. They are reused, so a warm call allocates nothing.
type scratch struct {
	budget
	text  []byte // normalized and rewritten text; grows like a stack
	runes []rune // one stretch under normalization
	syms  []uint32
	vals  []pair
	links []link
	heap  []uint64
}

// link is a symbol's neighbours in the list of a long piece, by index; -1 at the ends. A removed
// symbol has next -2.
type link struct{ prev, next int32 }

// maxReusedSymbols bounds the buffers that a scratch keeps between calls, in symbols: 64 Ki of them
// are 2 MiB.
const maxReusedSymbols = 1 << 16

// release drops buffers that one long piece made large.
func (w *scratch) release() {
	if cap(w.syms) > maxReusedSymbols {
		w.syms, w.vals, w.links, w.heap = nil, nil, nil, nil
	}
	if cap(w.text) > 16*maxReusedSymbols {
		w.text = nil
	}
	if cap(w.runes) > maxReusedSymbols {
		w.runes = nil
	}
}

// mergeAll appends the tokens of w.syms to dst: it merges pairs in the order of their ranks, the
// leftmost first.
func (m *merges) mergeAll(dst []uint32, w *scratch) []uint32 {
	if len(w.syms) > maxScan {
		return m.mergeLong(dst, w)
	}
	syms, vals := w.syms, w.vals[:0]
	for i := 1; i < len(syms); i++ {
		vals = append(vals, m.of(syms[i-1], syms[i]))
	}
	w.vals = vals
	return m.mergeShort(dst, syms, vals)
}

// mergeShort merges in place by repeated search; vals[i] is the pair of syms[i] and syms[i+1].
func (m *merges) mergeShort(dst, syms []uint32, vals []pair) []uint32 {
	for {
		best, at := noPair, -1
		for i, v := range vals {
			if v < best {
				best, at = v, i
			}
		}
		if at < 0 {
			return append(dst, syms...)
		}
		// At most 64 symbols move, which is less than a list of links would cost.
		syms[at] = uint32(best)
		copy(syms[at+1:], syms[at+2:])
		syms = syms[:len(syms)-1]
		copy(vals[at:], vals[at+1:])
		vals = vals[:len(vals)-1]
		if at > 0 {
			vals[at-1] = m.of(syms[at-1], syms[at])
		}
		if at < len(vals) {
			vals[at] = m.of(syms[at], syms[at+1])
		}
	}
}

// mergeLong merges w.syms with a linked list and a heap of rank << 32 | position, in n log n.
func (m *merges) mergeLong(dst []uint32, w *scratch) []uint32 {
	n := len(w.syms)
	w.links, w.vals, w.heap = w.links[:0], w.vals[:0], w.heap[:0]
	for i := range n {
		w.links = append(w.links, link{int32(i) - 1, int32(i) + 1})
		v := noPair
		if i+1 < n {
			v = m.of(w.syms[i], w.syms[i+1])
		}
		w.vals = append(w.vals, v)
		if v != noPair {
			w.heap = append(w.heap, v>>32<<32|uint64(i))
		}
	}
	w.links[n-1].next = -1
	// Heapifying all at once is linear, where entering one by one would be n log n.
	for i := len(w.heap)/4 + 1; i >= 0; i-- {
		siftDown(w.heap, i)
	}
	for len(w.heap) > 0 {
		top := w.heap[0]
		last := len(w.heap) - 1
		w.heap[0] = w.heap[last]
		w.heap = w.heap[:last]
		siftDown(w.heap, 0)
		// The entry of a symbol that was merged, or has a new neighbour, is stale.
		if at := uint32(top); w.vals[at]>>32 == top>>32 {
			m.mergeAt(w, int32(at))
		}
	}
	for i := int32(0); i >= 0; i = w.links[i].next {
		dst = append(dst, w.syms[i])
	}
	return dst
}

// mergeAt merges the symbol at with its right neighbour and enters the two pairs that this makes.
func (m *merges) mergeAt(w *scratch, at int32) {
	right := w.links[at].next
	w.syms[at] = uint32(w.vals[at])
	w.vals[right] = noPair
	next := w.links[right].next
	w.links[at].next = next
	w.vals[at] = noPair
	if next >= 0 {
		w.links[next].prev = at
		m.enter(w, at, next)
	}
	if prev := w.links[at].prev; prev >= 0 {
		m.enter(w, prev, at)
	}
}

// enter puts the pair of two neighbours into the heap.
func (m *merges) enter(w *scratch, left, right int32) {
	v := m.of(w.syms[left], w.syms[right])
	w.vals[left] = v
	if v == noPair {
		return
	}
	w.heap = append(w.heap, v>>32<<32|uint64(left))
	siftUp(w.heap, len(w.heap)-1)
}

// The heap has four children a node: half the depth of a binary one, and the children share a cache
// line.

func siftUp(h []uint64, i int) {
	x := h[i]
	for i > 0 {
		parent := (i - 1) / 4
		if h[parent] <= x {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = x
}

func siftDown(h []uint64, i int) {
	if i >= len(h) {
		return
	}
	x := h[i]
	for {
		child := 4*i + 1
		if child >= len(h) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(h)); c++ {
			if h[c] < h[least] {
				least = c
			}
		}
		if h[least] >= x {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = x
}
