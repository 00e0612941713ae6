package routing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// library is a tier directory by the first token of prompts.
type library struct {
	by     map[uint32][]routing.TierMatch
	model  string
	looked int
}

func (l *library) Stored(dst []routing.TierMatch, a routing.TierQuery) []routing.TierMatch {
	l.model = a.Model
	l.looked++
	return append(dst, l.by[a.Tokens[0]]...)
}

// Pages of another kind are of no use, and a node without a tier, or with engines of two kinds,
// gets nothing from others.
func TestKindsOfPagesAreKeptApart(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny())
	f.at(1, 2, 3, 4)
	ids := tokens(7, 4001)
	lib := &library{by: map[uint32][]routing.TierMatch{ids[0]: {
		{Place: 1, Tokens: 2000, Kind: 10, Open: true},
		{Place: 1, Tokens: 3000, Kind: 20},
		{Place: 2, Tokens: 0, Kind: 20, Open: true},
		{Place: 3, Tokens: 4000, Kind: 30},
	}}}
	f.router.Tiers = lib
	f.linked(f.router, 4, 8e9)
	_, _ = f.pick(prompt(ids))
	var got [][2]int32
	for _, c := range f.spy.candidates {
		got = append(got, [2]int32{c.Tier, c.Remote})
	}
	require.Equal(t, [][2]int32{{2000, 0}, {0, 3000}, {0, 0}, {0, 0}}, got)
	require.Equal(t, f.ranks[0].Worker.Info().Model(), lib.model)
	// One prompt's matches are not another's.
	_, _ = f.pick(prompt(tokens(8, 4001)))
	for _, c := range f.spy.candidates {
		require.Zero(t, c.Tier|c.Remote)
	}
	p := prompt(ids)
	p.ExtraKey = "x"
	before := lib.looked
	_, _ = f.pick(p)
	require.Equal(t, before, lib.looked, "prompts that tokens alone do not name are not looked up")
}
