package route_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/policy"
	"github.com/warmpath/warmpath/dataplane/route"
	"github.com/warmpath/warmpath/radix"
)

// predicted returns what the last pick's candidates were expected to hold soon.
func (f *fleet) predicted() (out []int) {
	for _, c := range f.spy.candidates {
		out = append(out, c.Predicted)
	}
	return out
}

// TestPromptsInFlightArePredicted: a burst that shares a prefix sees it before
// any event tells of it, and for certain once an answer has begun.
func TestPromptsInFlightArePredicted(t *testing.T) {
	first := tokens(1, 18) // 4 pages of 4 tokens and 2 tokens
	next := join(first[:13], tokens(2, 20))
	bubble(t, 2, func(f *fleet) {
		f.spy.pick = 1
		_, d := f.pick(prompt(first))
		flight := f.router.Dispatch(&f.scratch, &d)

		cached, d2 := f.pick(prompt(next))
		require.Equal(f.t, []int{0, 0}, cached, "nothing is cached yet")
		require.Equal(f.t, []int{0, 12}, f.predicted())
		require.Equal(f.t, len(next)-12, d2.Uncached(), "its load is what it will really compute")
		require.Equal(f.t, 0, d2.Matched, "the header tells what is known")

		flight.Prefilled()
		cached, _ = f.pick(prompt(next))
		require.Equal(f.t, []int{0, 12}, cached, "a running request's pages are there")

		_, other := f.pick(&route.Prompt{Model: model, Tokens: next, Exact: true, DP: -1, Salt: "s"})
		require.Zero(f.t, other.Predicted, "another salt shares nothing")

		f.router.Land(flight)
		cached, _ = f.pick(prompt(next))
		require.Equal(f.t, []int{0, 0}, cached)
		require.Equal(f.t, []int{0, 0}, f.predicted())
	})
}

func TestShortPromptsDoNotFly(t *testing.T) {
	bubble(t, 1, func(f *fleet) {
		_, d := f.pick(prompt(tokens(1, 3)))
		flight := f.router.Dispatch(&f.scratch, &d)
		require.Nil(f.t, flight)
		flight.Prefilled()
		f.router.Land(flight)
	})
}

// TestFlightsThatAreTooOldLandAllTheSame: the ring forgets the oldest, and
// landing one of them must not take a younger one's place.
func TestFlightsThatAreTooOldLandAllTheSame(t *testing.T) {
	bubble(t, 1, func(f *fleet) {
		var flights []*route.Flight
		for i := range uint32(300) {
			_, d := f.pick(prompt(tokens(i+1, 8)))
			flights = append(flights, f.router.Dispatch(&f.scratch, &d))
		}
		for _, flight := range flights[:44] {
			f.router.Land(flight)
		}
		f.pick(prompt(tokens(300, 9)))
		require.Equal(f.t, []int{8}, f.predicted())
		f.pick(prompt(tokens(1, 9)))
		require.Equal(f.t, []int{0}, f.predicted())
		for _, flight := range flights[44:] {
			f.router.Land(flight)
		}
		f.pick(prompt(tokens(300, 9)))
		require.Equal(f.t, []int{0}, f.predicted())
	})
}

// TestPredictionIsTheSharedPrefix compares with counting token by token.
func TestPredictionIsTheSharedPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bubble(t, 1, func(f *fleet) {
		for range 500 {
			a := tokens(1, 1+rng.IntN(60))
			b := join(a[:rng.IntN(len(a)+1)], tokens(2, 1+rng.IntN(60)))
			_, d := f.pick(prompt(a))
			flight := f.router.Dispatch(&f.scratch, &d)
			f.pick(prompt(b))
			same := 0
			for same < min(len(a), len(b)) && a[same] == b[same] {
				same++
			}
			want := min(same, len(b)-1) / page * page
			require.Equal(f.t, []int{want}, f.predicted(), "%d of %d and %d tokens shared", same, len(a), len(b))
			f.router.Land(flight)
		}
	})
}

func TestFlightsFromManyGoroutines(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.store(f.holds(0, radix.DomainKey{}, tokens(1, 8), 1, radix.TierGPU), radix.DomainKey{}, tokens(2, 8), 1, radix.TierGPU)
	r := f.with(policy.RoundRobin{})
	var wg sync.WaitGroup
	for g := range uint32(4) {
		wg.Go(func() {
			var s route.Scratch
			for i := range uint32(300) {
				d, err := r.Pick(&s, prompt(tokens(1+(g+i)%5, 40)), nil)
				if err != nil {
					t.Error(err)
					return
				}
				flight := r.Dispatch(&s, &d)
				flight.Prefilled()
				r.Land(flight)
			}
		})
	}
	wg.Wait()
	var s route.Scratch
	d, err := r.Pick(&s, prompt(tokens(4, 40)), nil)
	require.NoError(t, err)
	require.Zero(t, d.Predicted, "everything has landed")
}
