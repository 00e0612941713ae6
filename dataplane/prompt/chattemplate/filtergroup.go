package chattemplate

import "slices"

// groupFilter sorts by an attribute and gathers items with equal values. A group is named by its
// first member's own spelling.
func groupFilter(s *state, v value, a args) value {
	it := iterate(s, a.line, v)
	keyOf := func(item value) value {
		x := attributePath(s, a.line, item, a.pos[0])
		if x.k == kUndefined && a.pos[1].given() {
			return a.pos[1]
		}
		return x
	}
	var list []keyed
	for item, ok := it.next(s); ok && s.step(1); item, ok = it.next(s) {
		list = append(list, keyed{foldedCase(s, keyOf(item), a.pos[2].truthy()), item})
	}
	sortedItems(s, a.line, list, false)
	var groups []value
	for i := 0; i < len(list) && s.step(1); {
		var members []value
		from := i
		for ; i < len(list) && equalValues(s, list[i].key, list[from].key, 0); i++ {
			members = append(members, list[i].item)
		}
		if i == from { // NaN equals nothing, not even itself
			return s.unsupported("groups of NaN")
		}
		group := s.pair(keyOf(members[0]), s.listValue(kList, members))
		if s.err == nil {
			group.o.arg[0] = groupTuple
		}
		groups = append(groups, group)
	}
	return s.listValue(kList, groups)
}

// groupTuple marks, in object.arg, the tuples of groupby. Their parts are named grouper and list.
const groupTuple = 1

// batchFilter cuts into rows of a given length.
func batchFilter(s *state, v value, a args) value {
	return lazyList(s, func() []value {
		if !a.pos[0].isInt() || a.pos[0].n < 1 {
			s.unsupported("batch by " + toStr(s, a.pos[0]))
			return nil
		}
		size := int(a.pos[0].n)
		it := iterate(s, a.line, v)
		items := it.all(s)
		var rows []value
		for len(items) > 0 && s.step(1) {
			row := slices.Clone(items[:min(size, len(items))])
			items = items[len(row):]
			for len(row) < size && a.pos[1].given() && s.step(1) {
				row = append(row, a.pos[1])
			}
			rows = append(rows, s.listValue(kList, row))
		}
		return rows
	})
}

// sliceFilter cuts into a given number of columns; the first ones are longer if it does not come
// out even.
func sliceFilter(s *state, v value, a args) value {
	return lazyList(s, func() []value {
		if !a.pos[0].isInt() || a.pos[0].n < 1 {
			s.unsupported("slice into " + toStr(s, a.pos[0]))
			return nil
		}
		it := iterate(s, a.line, v)
		items := it.all(s)
		n := int(a.pos[0].n)
		each, extra := len(items)/n, len(items)%n
		var rows []value
		for i := 0; i < n && s.step(1); i++ {
			size := each
			if i < extra {
				size++
			}
			row := slices.Clone(items[:size])
			items = items[size:]
			if i >= extra && a.pos[1].given() {
				row = append(row, a.pos[1])
			}
			rows = append(rows, s.listValue(kList, row))
		}
		return rows
	})
}
