package routing_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// shelves is a tier directory with the same matches for any prompt. Each place has a tier, and
// all are of one kind.
type shelves []routing.TierMatch

func (s shelves) Stored(dst []routing.TierMatch, _ routing.TierQuery) []routing.TierMatch {
	for place := uint32(1); place < 10; place++ {
		shelf := routing.TierMatch{Place: place, Open: true}
		for _, known := range s {
			if known.Place == place {
				shelf.Tokens = known.Tokens
			}
		}
		dst = append(dst, shelf)
	}
	return dst
}

// at puts ranks onto places.
func (f *fleet) at(places ...uint32) {
	for i, p := range places {
		f.ranks[i].Worker.SetNodeNumber(p)
	}
}

// linked publishes links between places, all of one speed unless they are broken.
func (f *fleet) linked(r *routing.Router, places int, speed float64, broken ...[2]uint32) {
	l := policy.NewLinks(places)
	for from := range uint32(places) {
		for to := range uint32(places) {
			l.Set(from+1, to+1, policy.Hop{Speed: speed})
		}
	}
	for _, b := range broken {
		l.Set(b[0], b[1], policy.Hop{Broken: true})
	}
	r.SetLinks(l)
}

// Each candidate has the tokens of its own node's tier, and behind those of the best peer.
func TestTiersBecomeCandidates(t *testing.T) {
	const speed = 8e9      // as fast as the way from a tier into an engine: a byte takes twice as long from a peer
	const bytes = 64 << 10 // of a token, as the first worker says; of the others it is unknown, and so the usual 128 KiB
	told := tiny()
	told.perGiB = 1 << 30 / bytes
	f := newFleet(t, told, tiny(), tiny(), tiny())
	f.at(1, 2, 3, 0)
	ids := tokens(1, 4001)
	f.holds(1, radix.DomainKey{}, ids, 750, radix.TierGPU)
	f.ranks[1].SetExact(true)
	f.router.Tiers = shelves{{Place: 1, Tokens: 1000}, {Place: 2, Tokens: 2000}, {Place: 3, Tokens: 4001}, {Place: 9, Tokens: 4000}}
	f.linked(f.router, 3, speed)
	_, _ = f.pick(prompt(ids))
	type fetch struct{ tier, remote int32 }
	var got []fetch
	for _, c := range f.spy.candidates {
		got = append(got, fetch{c.Tier, c.Remote})
	}
	assert.Equal(t, []fetch{
		{1000, 3000}, // its own, and behind that the longest of the peers
		{0, 1000},    // 3,000 are on its GPU already
		{4000, 0},    // whole pages, and never the last token
		{0, 0},       // where it is nobody knows
	}, got)
	c := f.spy.candidates[0]
	assert.InDelta(t, 1000*bytes/8e9, c.TierTime, 1e-6)
	assert.InDelta(t, 3000*bytes*(1/speed+1/8e9), c.RemoteTime, 1e-5)
	assert.InDelta(t, 4000*policy.UsualBytes/8e9, f.spy.candidates[2].TierTime, 1e-5)

	measured := policy.NewLinks(3)
	measured.SetTier(1, 2e9)
	measured.SetTier(3, 2e9)
	measured.Set(3, 1, policy.Hop{Speed: speed})
	f.router.SetLinks(measured)
	_, _ = f.pick(prompt(ids))
	c = f.spy.candidates[0]
	assert.InDelta(t, 1000*bytes*(1/2e9+1/24e9), c.TierTime, 1e-6, "what engines of its node take was measured")
	assert.InDelta(t, 3000*bytes*(1/speed+1/2e9+1/24e9), c.RemoteTime, 1e-5)
	assert.InDelta(t, 4000*policy.UsualBytes/8e9, f.spy.candidates[2].TierTime, 1e-5, "measured with pages of nobody knows how many bytes")

	f.linked(f.router, 3, speed, [2]uint32{3, 1})
	_, _ = f.pick(prompt(ids))
	assert.EqualValues(t, 1000, f.spy.candidates[0].Remote, "the link to the longest is broken")
	f.router.SetLinks(nil)
	_, _ = f.pick(prompt(ids))
	assert.Zero(t, f.spy.candidates[0].Remote, "by links that nobody has measured nothing is credited")
	p := prompt(ids)
	p.Opaque = true
	_, _ = f.pick(p)
	assert.Zero(t, f.spy.candidates[0].Tier)
}

// The longest prefix wins among peers, and of equal ones the fastest link: as a look at all of
// them finds.
func TestTheBestPeerIsFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 18))
	f := newFleet(t, tiny())
	f.at(1)
	for range 500 {
		var all shelves
		links := policy.NewLinks(6)
		for place := uint32(2); place <= 6; place++ {
			all = append(all, routing.TierMatch{Place: place, Tokens: page * rnd.IntN(5) * 10})
			links.Set(place, 1, policy.Hop{Speed: float64(rnd.IntN(3)) * 1e9, Broken: rnd.IntN(4) == 0})
		}
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		most, took := 0, 0.0
		for _, s := range all {
			h := links.Between(s.Place, 1)
			if h.Speed == 0 || h.Broken || s.Tokens == 0 || s.Tokens < most {
				continue
			}
			if time := float64(s.Tokens) * policy.UsualBytes * (1/h.Speed + 1/8e9); s.Tokens > most || time < took {
				most, took = s.Tokens, time
			}
		}
		f.router.Tiers = all
		f.router.SetLinks(links)
		_, _ = f.pick(prompt(tokens(1, 400)))
		require.EqualValues(t, most, f.spy.candidates[0].Remote)
		require.InEpsilon(t, 1+took, 1+f.spy.candidates[0].RemoteTime, 1e-5)
	}
}

// A prompt goes to the rank with a tier match where that is faster, and elsewhere where it is
// not.
func TestTiersMoveTheChoice(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.at(1, 2)
	p := prompt(tokens(1, 4001))
	r := f.with(policy.KV{Options: policy.Defaults})
	r.Tiers = shelves{{Place: 2, Tokens: 4000}}
	f.linked(r, 2, 10e9)
	pick := func() *worker.Rank {
		d, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		return d.Rank
	}
	require.Same(t, f.ranks[1], pick(), "its own tier")
	x := r.Explain(&f.scratch, p, 1)
	require.Positive(t, x.Ranks[0].Cost.Tier, "the other one would pull")
	require.Less(t, x.Ranks[0].Cost.Compute, 0.001)
	f.linked(r, 2, 1e8)
	x = r.Explain(&f.scratch, p, 1)
	require.Zero(t, x.Ranks[0].Cost.Tier, "over a slow link it computes")
	lease := f.ranks[1].Load.Begin(10_000)
	defer lease.End()
	require.Same(t, f.ranks[0], pick(), "a second of queue is more than the prompt")
}

// Pairs go by the links that were measured, and not over broken ones.
func TestPairsGoByLinks(t *testing.T) {
	f := pairFleet(t)
	f.at(1, 2, 3, 4)
	p := prompt(tokens(1, 4000))
	r := f.with(policy.KV{Options: policy.Defaults})
	pick := func() (prefill, decode *worker.Rank) {
		d, err := r.Pick(&f.scratch, p, nil)
		require.NoError(t, err)
		return d.Rank, d.Decode
	}
	for range 10 {
		f.linked(r, 4, 1e10, [2]uint32{1, 3}, [2]uint32{1, 4}, [2]uint32{2, 4})
		a, b := pick()
		require.Equal(t, ranksOf(f.ranks[1], f.ranks[2]), ranksOf(a, b), "the only link that works")
		f.linked(r, 4, 1e10, [2]uint32{2, 3}, [2]uint32{2, 4}, [2]uint32{1, 3})
		a, b = pick()
		require.Equal(t, ranksOf(f.ranks[0], f.ranks[3]), ranksOf(a, b))
	}
	f.linked(r, 4, 1e10, [2]uint32{1, 3}, [2]uint32{1, 4}, [2]uint32{2, 3}, [2]uint32{2, 4})
	_, b := pick()
	require.NotNil(t, b, "where all are broken, one is tried")
	x := r.Explain(&f.scratch, p, 1)
	require.True(t, x.Decodes[0].Broken && x.Decodes[1].Broken)
	f.linked(r, 4, 1e10, [2]uint32{1, 3}, [2]uint32{2, 3})
	x = r.Explain(&f.scratch, p, 1)
	require.Equal(t, []bool{true, false}, []bool{x.Decodes[0].Broken, x.Decodes[1].Broken})
	require.InDelta(t, 4000*policy.UsualBytes/1e10, x.Decodes[1].Cost.Transfer, 1e-9)
}
