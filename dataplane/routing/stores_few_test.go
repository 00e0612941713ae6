package routing_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
)

// library is what tiers hold, by the first token of prompts.
type library struct {
	by     map[uint32][]routing.Shelf
	model  string
	looked int
}

func (l *library) Stored(dst []routing.Shelf, a routing.Asked) []routing.Shelf {
	l.model = a.Model
	l.looked++
	return append(dst, l.by[a.Tokens[0]]...)
}

// In a large fleet with tiers the choice among few ranks costs what the one among all does.
func TestFewWithTiers(t *testing.T) {
	bubble(t, 300, func(f *fleet) {
		f.exact()
		const places = 30
		f.at(placesOf(len(f.ranks), places)...)
		r := f.with(policy.KV{Options: policy.Defaults})
		rng := rand.New(rand.NewPCG(4, 2))
		lib := &library{by: map[uint32][]routing.Shelf{}}
		for id := range uint32(25) {
			if id%5 == 4 {
				continue // no tier has it
			}
			var list []routing.Shelf
			for place := uint32(1); place <= places; place++ {
				list = append(list, routing.Shelf{Place: place, Open: true})
			}
			for range 1 + rng.IntN(3) {
				list[rng.IntN(places)].Tokens = rng.IntN(4000)
			}
			lib.by[tokens(id, 1)[0]] = list
		}
		r.Stores = lib
		f.linked(r, places, 20e9)
		var s, all routing.Scratch
		few, fetched := 0, 0
		for range 60 {
			f.shake(rng)
			for range 10 {
				p := prompt(tokens(rng.Uint32N(25), 1+rng.IntN(4000)))
				p.Output = 100
				if f.asGood(r, &s, &all, p).Candidate.Tier > 0 {
					fetched++
				}
				if s.Considered() < len(f.ranks) {
					few++
				}
			}
		}
		require.Greater(t, few, 450, "all ranks were looked at, and nothing was shown")
		require.Greater(t, fetched, 100, "no tier moved a choice, and nothing was shown")
	})
}

// placesOf spreads ranks over places.
func placesOf(ranks, places int) []uint32 {
	list := make([]uint32, ranks)
	for i := range list {
		list[i] = uint32(i*places/ranks) + 1
	}
	return list
}

// Pages of another kind are of no use, and a node without a tier, or with engines of two kinds, gets nothing from others.
func TestKindsOfPagesAreKeptApart(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny(), tiny())
	f.at(1, 2, 3, 4)
	ids := tokens(7, 4001)
	lib := &library{by: map[uint32][]routing.Shelf{ids[0]: {
		{Place: 1, Tokens: 2000, Kind: 10, Open: true},
		{Place: 1, Tokens: 3000, Kind: 20},
		{Place: 2, Tokens: 0, Kind: 20, Open: true},
		{Place: 3, Tokens: 4000, Kind: 30},
	}}}
	f.router.Stores = lib
	f.linked(f.router, 4, 8e9)
	_, _ = f.pick(prompt(ids))
	var got [][2]int32
	for _, c := range f.spy.candidates {
		got = append(got, [2]int32{c.Tier, c.Remote})
	}
	require.Equal(t, [][2]int32{{2000, 0}, {0, 3000}, {0, 0}, {0, 0}}, got)
	require.Equal(t, f.ranks[0].Worker.Info().Model(), lib.model)
	// What was said of one prompt is not said of the next one.
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
