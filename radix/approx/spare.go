package approx

import "math/bits"

// spares are nodes and holds that were dropped and wait to be used again: prompts that nobody has seen come as fast as others are
// forgotten, and each would cost the allocator five objects and the collector as many. A node keeps its run and its holders' memory.
type spares struct {
	nodes [spareClasses]*node // by the capacity of their runs, linked by chained
	holds *hold               // linked by their place in the list of all
	bytes int64               // of all of them
	max   int64               // beyond it they go to the collector
}

const (
	// spareShare is the part of the memory bound that spares may take: 1 MiB of 64, which a burst of 200 new prompts of 64 KiB uses up.
	spareShare = 64
	// spareClasses has runs of up to 32,767 keys.
	spareClasses = smallRuns + 11*runSteps
	// Capacities below smallRuns have a class each; above, there are runSteps to each power of two.
	smallRuns = 16
	runSteps  = 8
)

// runClass returns the class of a run with a capacity of n.
func runClass(n int) int {
	if n < smallRuns {
		return n
	}
	shift := bits.Len(uint(n)) - 4
	return smallRuns + (shift-1)*runSteps + n>>shift - runSteps
}

// runRoom returns the least capacity of the class that has room for n keys in all of its runs.
func runRoom(n int) int {
	if n < smallRuns {
		return n
	}
	step := 1 << (bits.Len(uint(n)) - 4)
	return (n + step - 1) &^ (step - 1)
}

// node returns a spare with room for n keys, or nil.
func (s *spares) node(n int) *node {
	class := runClass(runRoom(n))
	if class >= spareClasses || s.nodes[class] == nil {
		return nil
	}
	found := s.nodes[class]
	s.nodes[class], found.chained = found.chained, nil
	s.bytes -= found.bytes()
	return found
}

// keepNode takes a node that is in no table and has no holders.
func (s *spares) keepNode(n *node) {
	class := runClass(cap(n.run))
	if class >= spareClasses || !s.room(n.bytes()) {
		return
	}
	n.parent, n.run = nil, n.run[:0]
	n.chained, s.nodes[class] = s.nodes[class], n
	s.bytes += n.bytes()
}

// hold returns an empty hold.
func (s *spares) hold() *hold {
	h := s.holds
	if h == nil {
		return &hold{}
	}
	s.holds = h.links[ofAll].next
	s.bytes -= holdBytes
	h.links[ofAll].next = nil
	return h
}

// keepHold takes a hold that is in no list.
func (s *spares) keepHold(h *hold) {
	if !s.room(holdBytes) {
		return
	}
	*h = hold{}
	h.links[ofAll].next, s.holds = s.holds, h
	s.bytes += holdBytes
}

// room reports whether n bytes more may be kept. Where all room is taken, it may be by sizes that nobody asks for any more: all of them go.
func (s *spares) room(n int64) bool {
	if s.bytes+n > s.max {
		*s = spares{max: s.max}
	}
	return n <= s.max
}
