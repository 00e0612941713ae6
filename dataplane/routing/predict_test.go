package routing_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// predicted returns the predicted tokens of the last pick's candidates.
func (f *fleet) predicted() (out []int) {
	for _, c := range f.spy.candidates {
		out = append(out, c.Predicted)
	}
	return out
}

// dispatch routes a prompt and sends it.
func (f *fleet) dispatch(p *routing.Prompt) (routing.Decision, *routing.Prediction) {
	f.t.Helper()
	_, d := f.pick(p)
	return d, f.router.Dispatch(&f.scratch, p, &d)
}

// TestPromptsInFlightArePredicted: a burst that shares a prefix sees it before
// any event tells of it, and for certain once an answer has begun.
func TestPromptsInFlightArePredicted(t *testing.T) {
	first := tokens(1, 18) // 4 pages of 4 tokens and 2 tokens
	next := join(first[:13], tokens(2, 20))
	bubble(t, 2, func(f *fleet) {
		f.spy.pick = 1
		_, flight := f.dispatch(prompt(first))

		cached, d2 := f.pick(prompt(next))
		require.Equal(f.t, []int{0, 0}, cached, "nothing is cached yet")
		require.Equal(f.t, []int{0, 12}, f.predicted())
		require.Equal(f.t, len(next)-12, d2.Uncached(), "its load is what it will really compute")
		require.Equal(f.t, 0, d2.Matched, "the header tells what is known")

		flight.Prefilled()
		cached, _ = f.pick(prompt(next))
		require.Equal(f.t, []int{0, 12}, cached, "a running request's pages are there")

		_, other := f.pick(&routing.Prompt{Model: model, Tokens: next, Exact: true, DP: -1, Salt: "s"})
		require.Zero(f.t, other.Predicted, "another salt shares nothing")

		f.router.Withdraw(flight)
		cached, _ = f.pick(prompt(next))
		require.Equal(f.t, []int{0, 0}, cached)
		require.Equal(f.t, []int{0, 0}, f.predicted())
	})
}

func TestWhatIsNotPredicted(t *testing.T) {
	bubble(t, 1, func(f *fleet) {
		_, flight := f.dispatch(prompt(tokens(1, 3)))
		flight.Prefilled()
		f.pick(prompt(tokens(1, 9)))
		require.Equal(f.t, []int{0}, f.predicted())
		f.router.Withdraw(flight)

		d, none := f.dispatch(&routing.Prompt{Model: model, Tokens: tokens(1, 8), Exact: true, Opaque: true, DP: -1})
		require.Nil(f.t, none, "an opaque prompt")
		require.Zero(f.t, d.Predicted)
		none.Prefilled()
		f.router.Finish(&f.scratch, none, nil, time.Now())
		f.router.Withdraw(none)
	})
}

// TestLostPredictions: a prediction that no caller ends is removed when it is too old or too
// many others follow, and may be ended all the same.
func TestLostPredictions(t *testing.T) {
	first := prompt(tokens(1, 8))
	next := prompt(tokens(1, 9))
	for name, lose := range map[string]func(f *fleet){
		"too old": func(f *fleet) {
			time.Sleep(11 * time.Minute)
			_, other := f.dispatch(prompt(tokens(9, 8)))
			f.router.Withdraw(other)
		},
		"too many": func(f *fleet) {
			for i := range uint32(4096) {
				f.dispatch(prompt(tokens(10+i, 4)))
			}
		},
	} {
		for end, land := range map[string]func(f *fleet, flight *routing.Prediction){
			"landed": func(f *fleet, flight *routing.Prediction) { f.router.Withdraw(flight) },
			"ended": func(f *fleet, flight *routing.Prediction) {
				f.router.Finish(&f.scratch, flight, tokens(2, 9), time.Now())
			},
		} {
			t.Run(name+"/"+end, func(t *testing.T) {
				bubble(t, 1, func(f *fleet) {
					_, flight := f.dispatch(first)
					f.pick(next)
					require.Equal(f.t, []int{8}, f.predicted())
					lose(f)
					f.pick(next)
					require.Equal(f.t, []int{0}, f.predicted())
					flight.Prefilled()
					land(f, flight)
					f.pick(next)
					require.Equal(f.t, []int{0}, f.predicted())
					require.LessOrEqual(f.t, f.index.Stats().Predictions, 4096)
				})
			})
		}
	}
}

// TestPredictionsOfManyEngines: more requests than one engine queues are predicted where several have them.
func TestPredictionsOfManyEngines(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), tiny())
	var all []*routing.Prediction
	for i := range uint32(6000) {
		f.spy.pick = int(i % 3)
		_, flight := f.dispatch(prompt(tokens(10+i, 4)))
		all = append(all, flight)
	}
	require.Equal(t, 6000, f.index.Stats().Predictions)
	for _, flight := range all {
		f.router.Withdraw(flight)
	}
	require.Zero(t, f.index.Stats().Predictions)
}

// TestNumberOfALeftRank: while a request is in flight at a rank that has left, no other rank has its
// number and is credited with its prompts.
func TestNumberOfALeftRank(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	tree, p := f.learns(), prompt(tokens(1, 10*unit))
	sessions := known(f, f.router)
	f.spy.pick = 1
	d, flight := f.dispatch(p)
	f.router.Sent(&f.scratch, &d)
	left, url := d.Rank.Number(), d.Rank.Worker.URL
	require.NoError(t, f.registry.Remove(url))
	tree.Down(d.Rank.Worker)
	sessions.Down(d.Rank.Worker)
	f.ranks = nil
	runtime.GC()

	_, err := f.registry.Add(url)
	require.NoError(t, err)
	f.await()
	require.NotEqual(t, left, f.ranks[1].Number())
	tree.Up(f.ranks[1].Worker, f.ranks[1].Worker.Info())
	sessions.Up(f.ranks[1].Worker, f.ranks[1].Worker.Info())
	for range 2 {
		var s routing.Scratch
		e := f.router.Explain(&s, p, 0)
		require.Len(t, e.Ranks, 2)
		require.Zero(t, e.Ranks[1].Candidate.Predicted)
		require.Zero(t, e.Ranks[1].Cached)
		require.Zero(t, e.Ranks[1].Candidate.Live)
		// The late answer of the rank that has left.
		f.router.Answered(&f.scratch, p, &d, p.Len(), 0)
		sessions.End(&d, 10, time.Now())
	}
	f.router.Finish(&f.scratch, flight, nil, time.Now())
}

// TestPredictionIsTheSharedPrefix compares with counting token by token.
func TestPredictionIsTheSharedPrefix(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bubble(t, 1, func(f *fleet) {
		for range 500 {
			a := tokens(1, 1+rng.IntN(60))
			b := join(a[:rng.IntN(len(a)+1)], tokens(2, 1+rng.IntN(60)))
			_, flight := f.dispatch(prompt(a))
			f.pick(prompt(b))
			same := 0
			for same < min(len(a), len(b)) && a[same] == b[same] {
				same++
			}
			want := min(same, len(b)-1) / page * page
			require.Equal(f.t, []int{want}, f.predicted(), "%d of %d and %d tokens shared", same, len(a), len(b))
			f.router.Withdraw(flight)
		}
	})
}

// TestPredictionWithKnownHashes: however many blocks of a prompt are hashed
// already, all are predicted, and the caller's memory stays as it is.
func TestPredictionWithKnownHashes(t *testing.T) {
	ids := tokens(1, 43)
	for known := range len(ids)/page + 1 {
		for _, stored := range []int{0, 3, 10} {
			f := newFleet(t, tiny(), tiny())
			f.shapes = []ingest.Shape{{Model: model, BlockSize: page}, {Model: model, BlockSize: page, Bigram: true}}
			f.holds(0, radix.DomainKey{}, ids, stored, radix.TierGPU)
			f.spy.pick = 1
			p := prompt(ids)
			all := f.index.AppendHashes(nil, ids, page)
			p.Hashes, p.Block = append([]radix.Hash{}, all...)[:known], page
			clear(p.Hashes[known:cap(p.Hashes)])
			_, flight := f.dispatch(p)
			require.Equal(t, all[:known], p.Hashes)
			for _, h := range p.Hashes[known:cap(p.Hashes)] {
				require.Zero(t, h, "memory behind the caller's hashes")
			}
			f.pick(prompt(tokens(1, 44)))
			require.Equal(t, []int{0, 40}, f.predicted(), "%d known, %d stored", known, stored)
			f.pick(prompt(join(ids[:21], tokens(2, 5))))
			require.Equal(t, []int{0, 20}, f.predicted(), "%d known, %d stored", known, stored)
			f.router.Withdraw(flight)
		}
	}
}

// TestPredictionsOfSeveralGroups: blocks in flight at a rank of a hybrid model are predicted,
// and never certain.
func TestPredictionsOfSeveralGroups(t *testing.T) {
	f := newFleet(t, tiny())
	ids := tokens(1, 17)
	f.holds(0, radix.DomainKey{}, ids, 1, radix.TierGPU)
	f.holds(0, radix.DomainKey{}, ids, 1, radix.TierGPU)
	_, flight := f.dispatch(prompt(ids))
	flight.Prefilled()
	cached, _ := f.pick(prompt(ids))
	require.Equal(t, []int{4}, cached)
	require.Equal(t, []int{16}, f.predicted())
	f.router.Withdraw(flight)
}

func TestFlightsFromManyGoroutines(t *testing.T) {
	f := newFleet(t, tiny(), tiny())
	f.store(f.holds(0, radix.DomainKey{}, tokens(1, 8), 1, radix.TierGPU), radix.DomainKey{}, tokens(2, 8), 1, radix.TierGPU)
	r := f.with(policy.RoundRobin{})
	var wg sync.WaitGroup
	for g := range uint32(4) {
		wg.Go(func() {
			var s routing.Scratch
			for i := range uint32(300) {
				p := prompt(tokens(1+(g+i)%5, 40))
				d, err := r.Pick(&s, p, nil)
				if err != nil {
					t.Error(err)
					return
				}
				flight := r.Dispatch(&s, p, &d)
				flight.Prefilled()
				r.Withdraw(flight)
			}
		})
	}
	wg.Wait()
	var s routing.Scratch
	d, err := r.Pick(&s, prompt(tokens(4, 40)), nil)
	require.NoError(t, err)
	require.Zero(t, d.Predicted, "everything has landed")
}
