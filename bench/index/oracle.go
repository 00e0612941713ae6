package index

// oracle keeps what ranks hold in maps, twice: what they really hold, which the simulated engines know, and what their events tell. The
// two differ only where a rank has one name for blocks of two domains: a removal does not tell which of them went, so the index
// (package radix, "Semantics") credits either only while it has more copies than there were removals.
type oracle struct {
	c     *Churn
	held  []map[uint32][churnTiers]bool // by rank and block
	named []map[uint64]*named           // by rank and name
}

// named is what events told of one name.
type named struct {
	copies  map[uint8][churnTiers]int // by domain
	removed [churnTiers]int
}

func newOracle(c *Churn) *oracle {
	o := &oracle{c: c, held: make([]map[uint32][churnTiers]bool, c.o.Ranks), named: make([]map[uint64]*named, c.o.Ranks)}
	for rank := range c.o.Ranks {
		o.forget(rank)
	}
	return o
}

func (o *oracle) forget(rank int) {
	o.held[rank], o.named[rank] = map[uint32][churnTiers]bool{}, map[uint64]*named{}
}

// apply makes one step.
func (o *oracle) apply(s *step) {
	rank := int(s.rank)
	if s.kind != stepStore && s.kind != stepRemove {
		o.forget(rank)
		return
	}
	for i := s.start; i < s.end; i++ {
		block, name := o.c.blocks(s.req)[i], o.c.called(rank, s.req)[i]
		h := o.held[rank][block]
		h[s.tier] = s.kind == stepStore
		o.held[rank][block] = h
		if h == [churnTiers]bool{} {
			delete(o.held[rank], block)
		}
		n := o.named[rank][name]
		if n == nil {
			n = &named{copies: map[uint8][churnTiers]int{}}
			o.named[rank][name] = n
		}
		if s.kind == stepStore {
			copies := n.copies[o.c.domains[s.req]]
			copies[s.tier]++
			n.copies[o.c.domains[s.req]] = copies
		} else {
			n.removed[s.tier]++
		}
		if n.settle() {
			delete(o.named[rank], name)
		}
	}
}

// settle forgets the copies of a tier when there were as many removals, and reports whether no copies are left.
func (n *named) settle() (empty bool) {
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

// depth is how many leading blocks are held in any tier and how many on the GPU.
type depth struct{ any, gpu uint64 }

// extend counts one more block, the i-th.
func (d *depth) extend(i uint64, tiers [churnTiers]bool) {
	if d.any < i || tiers == [churnTiers]bool{} {
		return
	}
	d.any = i + 1
	if d.gpu == i && tiers[0] {
		d.gpu = i + 1
	}
}

// match returns what a rank really holds of a prompt, and what the events tell.
func (o *oracle) match(rank int, req uint32) (really, told depth) {
	names := o.c.called(rank, req)
	for i, block := range o.c.blocks(req)[:o.c.prompt[req]] {
		really.extend(uint64(i), o.held[rank][block])
		var tiers [churnTiers]bool
		if n := o.named[rank][names[i]]; n != nil {
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

// pairs returns how many names all ranks hold, and how many blocks any of them.
func (o *oracle) pairs() (pairs, distinct int) {
	blocks := map[uint32]bool{}
	for rank := range o.named {
		pairs += len(o.named[rank])
		for block := range o.held[rank] {
			blocks[block] = true
		}
	}
	return pairs, len(blocks)
}
