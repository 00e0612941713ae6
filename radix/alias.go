package radix

import (
	"math"
	"slices"
)

// alias is an engine hash that names a block in each of several domains. SGLang leaves the LoRA adapter out of its hash, so one
// prompt under two adapters is two blocks of one name, and a removal does not tell which of them goes.
//
// So removals are counted apart, and a place is credited only while it has more copies than removals could have hit it.
// Any place stays good as a parent until the last copy is gone: each holds a pin on its block.
type alias struct {
	places []place    // at least two, of different domains
	lost   [tiers]int // removals
}

// aliased is the handle of an entry whose places are in worker.aliases.
const aliased = math.MaxUint32

// credited reports whether a place surely has a copy in the tier.
func (a *alias) credited(p *place, t Tier) bool { return int(p.n[t]) > a.lost[t] }

// total returns the copies in a tier over all places.
func (a *alias) total(t Tier) int {
	n := -a.lost[t]
	for i := range a.places {
		n += int(a.places[i].n[t])
	}
	return n
}

// in returns the place in a domain, or nil.
func (a *alias) in(d Domain) *place {
	i := slices.IndexFunc(a.places, func(p place) bool { return p.hold.run.domain == d })
	if i < 0 {
		return nil
	}
	return &a.places[i]
}

// becomeAliasLocked makes an alias of an entry that is about to get a place in a second domain.
func (o *worker) becomeAliasLocked(e *entry) {
	p := place{hold: o.holds[e.handle], offset: e.offset, n: e.n}
	if o.aliases == nil {
		o.aliases = make(map[uint64]*alias)
	}
	o.aliases[e.key] = &alias{places: []place{p}}
	*e = entry{key: e.key, handle: aliased, n: copies{1}} // not empty
	o.later = append(o.later, change{hold: p.hold, offset: p.offset, pin: true})
}

// enterAliasLocked counts a copy of an aliased engine hash at an offset of h's run, which is locked.
func (o *worker) enterAliasLocked(key uint64, h *hold, offset uint32, t Tier) {
	a := o.aliases[key]
	p := a.in(h.run.domain)
	switch {
	case p == nil:
		a.places = append(a.places, place{hold: h, offset: offset})
		p = &a.places[len(a.places)-1]
		h.acquire(offset, tierPin)
	case p.hold != h || p.offset != offset:
		a.leave(o, p)
		*p = place{hold: h, offset: offset}
		a.forgive()
		h.acquire(offset, tierPin)
	}
	was := a.credited(p, t)
	p.n.add(t)
	if !was && a.credited(p, t) {
		h.acquire(offset, t)
	}
	o.shrinkAliasLocked(key, a)
}

// forgive forgets the tiers where removals may have taken all copies. None of their places is credited, as none has more
// copies than all have.
func (a *alias) forgive() {
	for t := range a.lost {
		if a.total(Tier(t)) > 0 {
			continue
		}
		a.lost[t] = 0
		for i := range a.places {
			a.places[i].n[t] = 0
		}
	}
}

// leave releases all of a place.
func (a *alias) leave(o *worker, p *place) {
	c := change{hold: p.hold, offset: p.offset, unpin: true}
	for t := range Tier(tiers) {
		c.release[t] = a.credited(p, t)
	}
	o.later = append(o.later, c)
}

// takeAliasLocked takes one copy of an aliased engine hash away, from one of its places or another.
func (o *worker) takeAliasLocked(key uint64, t Tier) (ok bool) {
	a := o.aliases[key]
	if t == TierUnknown {
		t = TierGPU
		for t < tiers && a.total(t) == 0 {
			t++
		}
	}
	if t >= tiers || a.total(t) == 0 {
		return false
	}
	for i := range a.places {
		// The last copy that no removal can have hit.
		if p := &a.places[i]; int(p.n[t]) == a.lost[t]+1 {
			c := change{hold: p.hold, offset: p.offset}
			c.release[t] = true
			o.later = append(o.later, c)
		}
	}
	a.lost[t]++
	a.forgive()
	o.shrinkAliasLocked(key, a)
	return true
}

// shrinkAliasLocked drops places without copies, and the alias when fewer than two are left.
func (o *worker) shrinkAliasLocked(key uint64, a *alias) {
	a.places = slices.DeleteFunc(a.places, func(p place) bool {
		if p.n != (copies{}) {
			return false
		}
		a.leave(o, &p)
		return true
	})
	switch len(a.places) {
	case 0:
		o.table.remove(key)
	case 1:
		p := a.places[0]
		for t := range p.n {
			p.n[t] -= uint16(a.lost[t]) // no more than there are, see forgive
		}
		*o.table.find(key) = entry{key: key, handle: p.hold.handle, offset: p.offset, n: p.n}
		o.later = append(o.later, change{hold: p.hold, offset: p.offset, unpin: true})
	default:
		return
	}
	delete(o.aliases, key)
}

// change is what has to be done to a hold whose run was not locked when that was found out: only one is locked at a time.
type change struct {
	hold    *hold
	offset  uint32
	pin     bool
	unpin   bool
	odd     bool // first of all: from held by name to held by an entry
	release [tiers]bool
}

// settleLocked makes the changes that were put off, in order. No run is locked.
func (x *Index) settleLocked(o *worker) {
	for _, c := range o.later {
		r := c.hold.run
		r.mu.Lock()
		if c.odd {
			c.hold.estrange(c.offset)
		}
		if c.pin {
			c.hold.acquire(c.offset, tierPin)
		}
		for t, yes := range c.release {
			if yes {
				c.hold.release(c.offset, Tier(t))
			}
		}
		if c.unpin {
			c.hold.release(c.offset, tierPin)
		}
		r.dropped++
		x.leaveLocked(o, c.hold)
	}
	clear(o.later)
	o.later = o.later[:0]
	if cap(o.later) > maxLater {
		o.later = nil
	}
}

// maxLater bounds the scratch that is kept: such changes are rare, and a freak's memory should not stay.
const maxLater = 1024
