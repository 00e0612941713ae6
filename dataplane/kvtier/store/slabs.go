package store

// slab is a part of the arena that belongs to one size class.
type slab struct {
	class int32 // valid while slots is not nil
	slots []int32
	busy  int // slots that are not free
}

func (v *evictor) slabAt(offset int64) *slab { return &v.slabs[offset/v.slabBytes] }

// occupy notes the entry of a slot.
func (v *evictor) occupy(offset int64, class, e int32) {
	s := v.slabAt(offset)
	s.slots[offset%v.slabBytes/v.classes[class].size] = e
	s.busy++
}

// vacate frees a slot.
func (v *evictor) vacate(offset int64, class int32) {
	s, c := v.slabAt(offset), &v.classes[class]
	s.slots[offset%v.slabBytes/c.size] = none
	s.busy--
	c.free = append(c.free, offset)
}

// takeSlab gives a class a free slab.
func (v *evictor) takeSlab(c int32) bool {
	for i := range v.slabs {
		if v.slabs[i].slots == nil {
			v.giveSlab(i, c)
			return true
		}
	}
	return false
}

func (v *evictor) giveSlab(i int, c int32) {
	own := &v.classes[c]
	n := v.slabBytes / own.size
	slots := make([]int32, n)
	for j := range slots {
		slots[j] = none
	}
	v.slabs[i] = slab{class: c, slots: slots}
	own.slabs++
	// The lowest offset comes last and is taken first: pages that are stored together lie
	// together, and NIXL moves them in one piece.
	for j := n - 1; j >= 0; j-- {
		own.free = append(own.free, int64(i)*v.slabBytes+j*own.size)
	}
}

// older returns the class whose victim is the oldest, if it is older than the victim of c.
func (v *evictor) older(c, victim int32) int32 {
	oldest, found := v.clock+1, none
	if victim != none {
		oldest = v.table.entries[victim].used
	}
	for i := range v.classes {
		if int32(i) == c || v.classes[i].slabs == 0 {
			continue
		}
		if e := v.victim(int32(i)); e == none && len(v.classes[i].free) == 0 {
			continue
		} else if e == none || v.table.entries[e].used < oldest {
			found = int32(i)
			if e != none {
				oldest = v.table.entries[e].used
			}
		}
	}
	return found
}

// moveSlab moves a slab between classes: an unused one, or the one of the victim. It fails where a
// page there is pinned or pending.
func (v *evictor) moveSlab(from, to int32) bool {
	i := -1
	if e := v.victim(from); e != none {
		i = int(v.table.entries[e].offset / v.slabBytes)
	}
	for j := range v.slabs {
		if s := &v.slabs[j]; s.slots != nil && s.class == from && s.busy == 0 {
			i = j
		}
	}
	if i < 0 {
		return false
	}
	s := &v.slabs[i]
	for _, e := range s.slots {
		if e != none && (v.table.entries[e].state != ready || v.table.entries[e].pins > 0) {
			return false
		}
	}
	for _, e := range s.slots {
		if e != none {
			v.evict(e)
		}
	}
	own := &v.classes[from]
	remaining := own.free[:0]
	for _, offset := range own.free {
		if int(offset/v.slabBytes) != i {
			remaining = append(remaining, offset)
		}
	}
	own.free = remaining
	own.slabs--
	v.giveSlab(i, to)
	return true
}
