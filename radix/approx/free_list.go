package approx

import "math/bits"

// freeList has evicted nodes and holdings for reuse. New prompts come as fast as old ones are
// evicted, and each would cost the allocator five objects. A node keeps its keys' and its
// holders' memory.
type freeList struct {
	nodes    [freeClasses]*node // by the capacity of their keys, linked by chained
	holdings *holding           // linked by their place in the list of all
	bytes    int64
	max      int64 // beyond it they go to the collector
}

const (
	// freeShare is the part of the memory bound for the free list: 1 MiB of 64 serves a burst
	// of 200 new prompts of 64 KiB.
	freeShare = 64
	// freeClasses covers nodes of up to 32,767 keys.
	freeClasses = exactClasses + 11*classSteps
	// Capacities below exactClasses have a class each; above, there are classSteps to each
	// power of two.
	exactClasses = 16
	classSteps   = 8
)

// keysClass returns the class of a capacity of n keys.
func keysClass(n int) int {
	if n < exactClasses {
		return n
	}
	shift := bits.Len(uint(n)) - 4
	return exactClasses + (shift-1)*classSteps + n>>shift - classSteps
}

// keysCapacity returns the least capacity of the class whose nodes all have room for n keys.
func keysCapacity(n int) int {
	if n < exactClasses {
		return n
	}
	step := 1 << (bits.Len(uint(n)) - 4)
	return (n + step - 1) &^ (step - 1)
}

// takeNode returns a node with room for n keys, or nil.
func (f *freeList) takeNode(n int) *node {
	class := keysClass(keysCapacity(n))
	if class >= freeClasses || f.nodes[class] == nil {
		return nil
	}
	found := f.nodes[class]
	f.nodes[class], found.chained = found.chained, nil
	f.bytes -= found.byteSize()
	return found
}

// putNode takes a node that is in no table and has no holders.
func (f *freeList) putNode(n *node) {
	class := keysClass(cap(n.keys))
	if class >= freeClasses || !f.makeRoom(n.byteSize()) {
		return
	}
	n.parent, n.keys = nil, n.keys[:0]
	n.chained, f.nodes[class] = f.nodes[class], n
	f.bytes += n.byteSize()
}

// takeHolding returns an empty holding.
func (f *freeList) takeHolding() *holding {
	h := f.holdings
	if h == nil {
		return &holding{}
	}
	f.holdings = h.links[ofAll].next
	f.bytes -= holdingBytes
	h.links[ofAll].next = nil
	return h
}

// putHolding takes a holding that is in no list.
func (f *freeList) putHolding(h *holding) {
	if !f.makeRoom(holdingBytes) {
		return
	}
	*h = holding{}
	h.links[ofAll].next, f.holdings = f.holdings, h
	f.bytes += holdingBytes
}

// makeRoom reports whether n bytes fit. A full list is emptied: it may have only sizes without
// demand.
func (f *freeList) makeRoom(n int64) bool {
	if f.bytes+n > f.max {
		*f = freeList{max: f.max}
	}
	return n <= f.max
}
