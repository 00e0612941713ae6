package lint

import "slices"

const (
	// runUnits is the shortest run that is compared: long enough that two prompts do not have one
	// by chance.
	runUnits = 6
	// stableUnits is the shortest run that counts as stable. A phrase is not worth moving.
	stableUnits = 16
	// rareShare is which share of the prompts with a prompt's most frequent run must have another
	// one, for that to belong to the template: history and names come in fewer.
	rareShare = 0.1
	// groupShare is which share of two prompts' template runs makes them a group.
	groupShare = 0.5
	// maxTemplateUnits bounds the units of a prompt that are compared to find its template.
	maxTemplateUnits = 4096
)

// runs returns the distinct runs of the first n units, sorted.
func (u *units) runs(n int) []uint64 {
	n = min(n, len(u.hash))
	if n < runUnits {
		return nil
	}
	all := make([]uint64, 0, n-runUnits+1)
	for i := range n - runUnits + 1 {
		all = append(all, u.run(i))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// run is a hash of the run that begins at unit i.
func (u *units) run(i int) (h uint64) {
	for _, x := range u.hash[i : i+runUnits] {
		h = (h ^ x) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return h
}

// group puts prompts of one template together, in the order of their first prompts.
func group(prompts []*units) [][]*units {
	templates := make([][]uint64, len(prompts))
	frequency := make(map[uint64]int)
	for i, u := range prompts {
		n := u.templateUnits
		if n < stableUnits {
			n = len(u.hash)
		}
		templates[i] = u.runs(min(n, maxTemplateUnits))
		for _, r := range templates[i] {
			frequency[r]++
		}
	}
	c := clusters{byRun: make(map[uint64][]int)}
	for i, u := range prompts {
		c.add(u, frequent(templates[i], frequency))
	}
	return c.groups
}

// frequent leaves the runs that belong to the template.
func frequent(runs []uint64, frequency map[uint64]int) []uint64 {
	most := 0
	for _, r := range runs {
		most = max(most, frequency[r])
	}
	least := max(2, int(rareShare*float64(most)))
	return slices.DeleteFunc(runs, func(r uint64) bool { return frequency[r] < least })
}

// clusters are groups, each known by the runs of its first prompt.
type clusters struct {
	groups [][]*units
	sizes  []int            // runs of each group's first prompt
	byRun  map[uint64][]int // the groups that have a run
	common []int            // scratch
}

// add puts a prompt into the group that is most like it, or begins one.
func (c *clusters) add(u *units, runs []uint64) {
	c.common = slices.Grow(c.common[:0], len(c.groups))[:len(c.groups)]
	clear(c.common)
	best, share := -1, 0.0
	for _, r := range runs {
		for _, g := range c.byRun[r] {
			c.common[g]++
		}
	}
	for g, n := range c.common {
		s := float64(n) / float64(max(len(runs)+c.sizes[g]-n, 1))
		if s > share && c.groups[g][0].Model == u.Model {
			best, share = g, s
		}
	}
	if share >= groupShare {
		c.groups[best] = append(c.groups[best], u)
		return
	}
	for _, r := range runs {
		c.byRun[r] = append(c.byRun[r], len(c.groups))
	}
	c.groups, c.sizes = append(c.groups, []*units{u}), append(c.sizes, len(runs))
}
