package lint

import (
	"math"
	"slices"
)

// stableShare is the share of a group's prompts that have a stable run.
const stableShare = 0.9

// measured is one prompt of a group.
type measured struct {
	*units
	shared     int    // leading units that another prompt of the group has too
	stable     []bool // of each unit
	lost       float64
	lastStable int // the unit behind the last stable one behind shared; 0: none
}

// measure returns the shared and the sharable units of each prompt of a group.
func measure(group []*units) []measured {
	out := make([]measured, len(group))
	stable := stableRuns(group)
	for i, shared := range commonBeginnings(group) {
		out[i] = measured{units: group[i], shared: shared}
		out[i].markStable(stable)
	}
	return out
}

func stableRuns(group []*units) map[uint64]bool {
	frequency := make(map[uint64]int)
	for _, u := range group {
		for _, r := range u.runs(len(u.hash)) {
			frequency[r]++
		}
	}
	stable, least := make(map[uint64]bool), int(math.Ceil(stableShare*float64(len(group))))
	for r, n := range frequency {
		if n >= least {
			stable[r] = true
		}
	}
	return stable
}

// commonBeginnings returns of each prompt how many units it has in common with the one that shares
// most: in sorted order, one of its neighbours.
func commonBeginnings(group []*units) []int {
	order := make([]int, len(group))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(group[a].hash, group[b].hash) })
	shared := make([]int, len(group))
	for i := 1; i < len(order); i++ {
		a, b := order[i-1], order[i]
		n := common(group[a].hash, group[b].hash)
		shared[a], shared[b] = max(shared[a], n), max(shared[b], n)
	}
	return shared
}

func common(a, b []uint64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// markStable finds the stable units and counts those behind the shared beginning.
func (m *measured) markStable(stable map[uint64]bool) {
	m.stable = make([]bool, len(m.hash))
	for i := 0; i+runUnits <= len(m.hash); i++ {
		if stable[m.run(i)] {
			for k := range runUnits {
				m.stable[i+k] = true
			}
		}
	}
	for i := 0; i < len(m.stable); {
		end := m.runEnd(i)
		if m.stable[i] && end-i < stableUnits {
			for k := i; k < end; k++ {
				m.stable[k] = false
			}
		}
		i = end
	}
	for i := m.shared; i < len(m.stable); i++ {
		if m.stable[i] {
			m.lost += m.weight(i+1) - m.weight(i)
			m.lastStable = i + 1
		}
	}
}

// runEnd is where the units that are as stable as the i-th one end.
func (m *measured) runEnd(i int) int {
	end := i
	for end < len(m.stable) && m.stable[end] == m.stable[i] {
		end++
	}
	return end
}

// change returns the first changing part before stable units: from the last stable unit in the
// shared beginning to the next stable one. It is empty where stable parts only come in another
// order.
func (m *measured) change() (from, to int) {
	from, to = m.shared, m.shared
	for from > 0 && !m.stable[from-1] {
		from--
	}
	for to < len(m.stable) && !m.stable[to] {
		to++
	}
	return from, to
}

// changes counts the changing parts before stable ones.
func (m *measured) changes() (n int) {
	for i := m.shared; i < m.lastStable; i = m.runEnd(i) {
		if !m.stable[i] {
			n++
		}
	}
	return max(n, 1)
}
