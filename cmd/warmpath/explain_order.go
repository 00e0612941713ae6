package main

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// orderExplained puts the winner first, then the other candidates by cost, and
// then those that were none.
func orderExplained(ranks []admin.ExplainedRank) []admin.ExplainedRank {
	sorted := slices.Clone(ranks)
	group := func(r *admin.ExplainedRank) int {
		switch {
		case r.Winner:
			return 0
		case r.Cost != nil:
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(sorted, func(a, b admin.ExplainedRank) int {
		if c := cmp.Compare(group(&a), group(&b)); c != 0 || a.Cost == nil {
			return c
		}
		return cmp.Compare(a.Cost.Total, b.Cost.Total)
	})
	return sorted
}
