package index

// oracle has the blocks of ranks twice, in maps: the blocks that the simulated engines hold,
// and those that follow from their events. The two differ only where an engine hash has blocks
// in two domains: a removal does not tell the domain, so the index (package radix, "Semantics")
// credits a block only while it has more copies than there were removals.
type oracle struct {
	c      *Churn
	held   []map[uint32][churnTiers]bool // by rank and block
	hashes []map[uint64]*heldHash        // by rank and engine hash
}

// heldHash has the events of one engine hash.
type heldHash struct {
	copies  map[uint8][churnTiers]int // by domain
	removed [churnTiers]int
}

func newOracle(c *Churn) *oracle {
	o := &oracle{c: c, held: make([]map[uint32][churnTiers]bool, c.o.Ranks)}
	o.hashes = make([]map[uint64]*heldHash, c.o.Ranks)
	for rank := range c.o.Ranks {
		o.reset(rank)
	}
	return o
}

func (o *oracle) reset(rank int) {
	o.held[rank], o.hashes[rank] = map[uint32][churnTiers]bool{}, map[uint64]*heldHash{}
}

// apply makes one step.
func (o *oracle) apply(s *step) {
	rank := int(s.rank)
	if s.kind != stepStore && s.kind != stepRemove {
		o.reset(rank)
		return
	}
	for i := s.start; i < s.end; i++ {
		block, name := o.c.blocks(s.req)[i], o.c.engineHashesOf(rank, s.req)[i]
		h := o.held[rank][block]
		h[s.tier] = s.kind == stepStore
		o.held[rank][block] = h
		if h == [churnTiers]bool{} {
			delete(o.held[rank], block)
		}
		n := o.hashes[rank][name]
		if n == nil {
			n = &heldHash{copies: map[uint8][churnTiers]int{}}
			o.hashes[rank][name] = n
		}
		if s.kind == stepStore {
			copies := n.copies[o.c.domains[s.req]]
			copies[s.tier]++
			n.copies[o.c.domains[s.req]] = copies
		} else {
			n.removed[s.tier]++
		}
		if n.dropEmptyTiers() {
			delete(o.hashes[rank], name)
		}
	}
}

// dropEmptyTiers zeroes a tier with as many removals as copies, and reports whether no copies
// are left.
func (n *heldHash) dropEmptyTiers() (empty bool) {
	empty = true
	for t := range n.removed {
		all := 0
		for _, copies := range n.copies {
			all += copies[t]
		}
		if all > n.removed[t] {
			empty = false
			continue
		}
		n.removed[t] = 0
		for d, copies := range n.copies {
			copies[t] = 0
			n.copies[d] = copies
		}
	}
	return empty
}

// overlap is the number of leading blocks held in any tier, and on the GPU.
type overlap struct{ any, gpu uint64 }

// extend counts one more block, the i-th.
func (d *overlap) extend(i uint64, tiers [churnTiers]bool) {
	if d.any < i || tiers == [churnTiers]bool{} {
		return
	}
	d.any = i + 1
	if d.gpu == i && tiers[0] {
		d.gpu = i + 1
	}
}

// match returns a rank's real overlap with a prompt, and the one that follows from its events.
func (o *oracle) match(rank int, req uint32) (really, told overlap) {
	names := o.c.engineHashesOf(rank, req)
	for i, block := range o.c.blocks(req)[:o.c.prompt[req]] {
		really.extend(uint64(i), o.held[rank][block])
		var tiers [churnTiers]bool
		if n := o.hashes[rank][names[i]]; n != nil {
			for t, copies := range n.copies[o.c.domains[req]] {
				tiers[t] = copies > n.removed[t]
			}
		}
		told.extend(uint64(i), tiers)
		if max(really.any, told.any) <= uint64(i) {
			break
		}
	}
	return really, told
}

// pairs returns the number of (rank, engine hash) pairs, and of distinct blocks.
func (o *oracle) pairs() (pairs, distinct int) {
	blocks := map[uint32]bool{}
	for rank := range o.hashes {
		pairs += len(o.hashes[rank])
		for block := range o.held[rank] {
			blocks[block] = true
		}
	}
	return pairs, len(blocks)
}
