package routing_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// remembered is how long an answer is credited without its events.
const remembered = 100 * time.Millisecond

// answer routes a prompt to a rank and has it answered there.
func (f *fleet) answer(rank int, p *routing.Prompt, generated []uint32) {
	f.t.Helper()
	f.spy.pick = rank
	d, flight := f.dispatch(p)
	require.Same(f.t, f.ranks[rank], d.Rank)
	flight.Prefilled()
	f.router.Finish(&f.scratch, flight, generated, time.Now())
}

func join(parts ...[]uint32) (out []uint32) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// TestNextTurn: a client's next turn before the events of the last one is credited with the
// pages that the engine has cached by then.
func TestNextTurn(t *testing.T) {
	first, reply, question := tokens(1, 10), tokens(2, 7), tokens(3, 5)
	tests := []struct {
		name      string
		generated []uint32
		next      []uint32
		want      int
	}{
		// The engine caches floor((n+m-1)/page) pages: floor(16/4) = 4.
		{"goes on", reply, join(first, reply, question), 16},
		{"goes on by one token", reply, join(first, reply, question[:1]), 16},
		{"the answer's ids are not told", nil, join(first, reply, question), 8},
		{"the same again", reply, first, 8},
		{"another answer of the same length", reply, join(first, tokens(4, 7), question), 8},
		{"a shorter answer", reply, join(first, reply[:3], question), 12},
		{"a longer answer", reply, join(first, reply, reply, question), 16},
		{"nothing behind the answer", reply, join(first, reply), 16},
		{"a part of the answer", reply, join(first, reply[:2]), 8},
		{"cut before the prompt's end", reply, first[:9], 8},
		{"another prompt", reply, join(tokens(5, 10), reply, question), 0},
		{"a prompt that differs in its last token", reply, join(first[:9], tokens(6, 1), reply, question), 8},
		{"a prompt that differs before", reply, join(first[:7], tokens(6, 3), reply, question), 4},
		{"nothing", reply, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 2, func(f *fleet) {
				f.answer(1, prompt(first), tt.generated)
				cached, _ := f.pick(prompt(tt.next))
				limit := max(len(tt.next)-1, 0) / page * page
				require.Equal(f.t, []int{0, min(tt.want, limit)}, cached, "cached by each rank")
			})
		})
	}
}

// TestNextTurnOfEveryLength holds the credit to the engine's rule.
func TestNextTurnOfEveryLength(t *testing.T) {
	bubble(t, 1, func(f *fleet) {
		for n := 1; n < 14; n++ {
			for m := range 14 {
				id := uint32(n*100 + m)
				first, reply := tokens(2*id, n), tokens(2*id+1, m)
				f.answer(0, prompt(first), reply)
				cached, _ := f.pick(prompt(join(first, reply, tokens(1, 9))))
				want := n / page * page // m tokens were generated, of none is told
				if m > 0 {
					want = (n + m - 1) / page * page
				}
				require.Equal(f.t, []int{want}, cached, "cached after %d tokens and an answer of %d", n, m)
			}
		}
	})
}

func TestRecentAnswersEnd(t *testing.T) {
	first, reply := tokens(1, 10), tokens(2, 7)
	next := join(first, reply, tokens(3, 5))
	tests := []struct {
		name   string
		change func(f *fleet)
		want   int
	}{
		{"at once", func(*fleet) {}, 16},
		{"just in time", func(*fleet) { time.Sleep(remembered - 2*time.Millisecond) }, 16},
		{"in time for the events", func(*fleet) { time.Sleep(remembered) }, 0},
		{"the worker changed its state since", func(f *fleet) { f.ranks[0].Worker.Suspect(); f.force(0, worker.Ready) }, 0},
		{"many other answers", func(f *fleet) {
			for i := range uint32(4095) {
				f.answer(0, prompt(tokens(100+i, 5)), nil)
			}
		}, 16},
		{"too many other answers", func(f *fleet) {
			for i := range uint32(4096) {
				f.answer(0, prompt(tokens(100+i, 5)), nil)
			}
		}, 0},
		{"the rank's layers are of several kinds", func(f *fleet) {
			f.holds(0, radix.DomainKey{}, next, 0, radix.TierGPU)
			f.holds(0, radix.DomainKey{}, next, 0, radix.TierGPU)
		}, 0},
		{"the events have told less", func(f *fleet) { f.holds(0, radix.DomainKey{}, next, 1, radix.TierGPU) }, 16},
		{"the events have told more", func(f *fleet) { f.holds(0, radix.DomainKey{}, next, 5, radix.TierGPU) }, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 1, func(f *fleet) {
				time.Sleep(time.Second)
				f.answer(0, prompt(first), reply)
				time.Sleep(time.Millisecond)
				tt.change(f)
				cached, _ := f.pick(prompt(next))
				require.Equal(f.t, []int{tt.want}, cached)
			})
		})
	}
}

// TestRecentAnswersStayApart: an answer is worth something only for prompts
// that the engine would find it for.
func TestRecentAnswersStayApart(t *testing.T) {
	first, reply := tokens(1, 10), tokens(2, 7)
	next := join(first, reply, tokens(3, 5))
	plain := func(*routing.Prompt) {}
	salted := func(p *routing.Prompt) { p.Salt = "s" }
	adapted := func(p *routing.Prompt) { p.LoRA = "s" }
	opaque := func(p *routing.Prompt) { p.Opaque = true }
	inexact := func(p *routing.Prompt) { p.Tokens, p.Exact, p.Estimate = nil, false, 40 }
	tests := []struct {
		name        string
		first, next func(*routing.Prompt)
		want        int
	}{
		{"plain", plain, plain, 16},
		{"salted", salted, salted, 16},
		{"adapter", adapted, adapted, 16},
		{"salted, then plain", salted, plain, 0},
		{"plain, then salted", plain, salted, 0},
		{"salt, then adapter of that name", salted, adapted, 0},
		{"plain, then opaque", plain, opaque, 0},
		{"opaque, then plain", opaque, plain, 0},
		{"plain, then inexact", plain, inexact, 0},
		{"inexact, then plain", inexact, plain, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, 1, func(f *fleet) {
				p, q := prompt(first), prompt(next)
				tt.first(p)
				tt.next(q)
				f.answer(0, p, reply)
				cached, _ := f.pick(q)
				require.Equal(f.t, []int{tt.want}, cached)
			})
		})
	}
}

// TestRecentAnswerOfNoCandidate: predictions of an excluded rank are credited to no other rank.
func TestRecentAnswerOfNoCandidate(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		first := tokens(1, 10)
		f.answer(0, prompt(first), nil)
		cached, d := f.pick(prompt(join(first, first)), f.ranks[0])
		require.Equal(f.t, []int{0}, cached)
		require.Same(f.t, f.ranks[1], d.Rank)
	})
}

// TestLongAnswer: of an answer longer than is remembered, the beginning counts.
func TestLongAnswer(t *testing.T) {
	bubble(t, 1, func(f *fleet) {
		first, reply := tokens(1, 8), tokens(2, 9000)
		f.answer(0, prompt(first), reply)
		cached, _ := f.pick(prompt(join(first, reply, first)))
		require.Len(f.t, cached, 1)
		require.GreaterOrEqual(f.t, cached[0], 4096, "credit for a long answer")
		require.LessOrEqual(f.t, cached[0], 4096+8, "credit for a long answer")
	})
}

// TestEverythingAtOnce is for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	f := newFleet(t, tiny(), tiny(), &node{models: named(model), dp: 2})
	f.shapes = []ingest.Shape{{Model: model, BlockSize: page}, {Model: model, BlockSize: page, Bigram: true}}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := f.with([]policy.Policy{policy.KV{}, policy.RoundRobin{}}[g%2])
			var inner sync.WaitGroup
			for range 2 {
				inner.Go(func() {
					var s routing.Scratch
					rng := rand.New(rand.NewPCG(uint64(g), 1))
					for range 300 {
						p := prompt(tokens(rng.Uint32N(8), 1+rng.IntN(60)))
						d, err := r.Pick(&s, p, nil)
						if err != nil {
							t.Errorf("cannot pick: %v", err)
							return
						}
						flight := r.Dispatch(&s, p, &d)
						r.Finish(&s, flight, tokens(rng.Uint32N(8), rng.IntN(20)), time.Now())
					}
				})
			}
			inner.Wait()
		})
	}
	wg.Go(func() {
		for i := range 300 {
			rank := f.ranks[i%len(f.ranks)]
			id := f.index.AddWorker()
			rank.SetIndexIDs([]uint32{uint32(id)})
			f.store(id, radix.DomainKey{}, tokens(uint32(i%8), 60), 10, radix.TierGPU)
			rank.SetIndexIDs(nil)
			f.index.RemoveWorker(id)
		}
	})
	wg.Wait()
}

// TestAnswerStandsUntilEvents: an engine that decodes for others publishes the pages of an ended
// answer a second later; until then its next turn finds them.
func TestAnswerStandsUntilEvents(t *testing.T) {
	bubble(t, 2, func(f *fleet) {
		first, reply := tokens(1, 10), tokens(2, 7)
		next := prompt(append(append([]uint32{}, first...), reply...))
		f.ranks[1].Trust.Confirmed(time.Now())
		time.Sleep(time.Millisecond)
		f.answer(1, prompt(first), reply)
		time.Sleep(time.Second)
		cached, _ := f.pick(next)
		require.Equal(t, []int{0, 16}, cached, "no event yet")
		f.ranks[1].Trust.Confirmed(time.Now())
		time.Sleep(remembered)
		cached, _ = f.pick(next)
		require.Equal(t, []int{0, 0}, cached, "an event that tells of none")
		f.answer(1, prompt(first), reply)
		time.Sleep(15 * time.Second)
		cached, _ = f.pick(next)
		require.Equal(t, []int{0, 0}, cached, "no event for 15 s")
	})
}
