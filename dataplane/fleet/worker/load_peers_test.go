package worker_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// twin is a request as two routers that share it see it, and as one router would that had sent
// everything.
type twin struct {
	by         int
	own, whole worker.Lease
}

// shared are two routers' loads of one rank, and one router's that sends all that they send.
type shared struct {
	routers [2]worker.Load
	told    [2]worker.RouterLoad // by whom, to the other one
	whole   worker.Load
	decodes bool // its requests are decode legs
}

// tell gives each router the other one's load.
func (s *shared) tell() {
	for i := range s.routers {
		is := s.routers[i].Own()
		s.routers[1-i].ReplacePeer(time.Now(), s.told[i], is)
		s.told[i] = is
	}
}

func (s *shared) report(r worker.Report) {
	for _, l := range []*worker.Load{&s.routers[0], &s.routers[1], &s.whole} {
		l.Report(time.Now(), r)
	}
}

// step does something at random.
func (s *shared) step(rng *rand.Rand, twins []*twin) []*twin {
	switch n := 1 + rng.IntN(1000); {
	case len(twins) == 0 || rng.IntN(3) == 0:
		t := &twin{by: rng.IntN(2)}
		if s.decodes {
			t.own, t.whole = s.routers[t.by].BeginLeg(n, worker.Work{Prompt: n}), s.whole.BeginLeg(n, worker.Work{Prompt: n})
		} else {
			t.own, t.whole = s.routers[t.by].Begin(n), s.whole.Begin(n)
		}
		return append(twins, t)
	case rng.IntN(2) == 0:
		t := twins[rng.IntN(len(twins))]
		t.own.FirstByte()
		t.whole.FirstByte()
	default:
		i := rng.IntN(len(twins))
		twins[i].own.End()
		twins[i].whole.End()
		return append(twins[:i], twins[i+1:]...)
	}
	return twins
}

// TestSharedLoadIsOneRouters: two routers that share their loads at once see, after each step,
// the load that one router with all requests would see, for any reports of the rank meanwhile.
func TestSharedLoadIsOneRouters(t *testing.T) {
	for seed := range uint64(20) {
		bubbletest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			s := shared{decodes: seed%4 == 0}
			var twins []*twin
			for i := range 300 {
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
				if twins = s.step(rng, twins); rng.IntN(20) == 0 {
					s.tell() // else the report would count requests on their way
					s.report(learnt(worker.Report{
						Running: rng.Int64N(9), Waiting: rng.Int64N(9), Queued: rng.Int64N(5000), Used: rng.Int64N(9000), Pool: 10_000, Most: 8,
					}))
				}
				s.tell()
				want := s.whole.View(time.Now())
				for k := range s.routers {
					got := s.routers[k].View(time.Now())
					got.Reserved = want.Reserved // is said of the own ones
					require.InDelta(t, want.Pending, got.Pending, 1)
					got.Pending = want.Pending
					require.Equal(t, want, got, "seed %d, step %d, router %d", seed, i, k)
				}
			}
		})
	}
}

// TestLostSharesHeal: after any loss the next message makes the counts right, and a forgotten
// router leaves nothing.
func TestLostSharesHeal(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 4))
		s := shared{decodes: seed%4 == 0}
		var twins []*twin
		for range 200 {
			if twins = s.step(rng, twins); rng.IntN(4) == 0 {
				s.tell()
			}
		}
		s.tell()
		now := time.Now()
		want, got := s.whole.View(now), s.routers[0].View(now)
		require.Equal(t, []int64{want.InFlight, want.Waiting, want.Used}, []int64{got.InFlight, got.Waiting, got.Used}, "seed %d", seed)
		require.InDelta(t, want.Pending, got.Pending, 1, "seed %d", seed)

		s.routers[0].ReplacePeer(now, s.told[1], worker.RouterLoad{Sent: s.told[1].Sent})
		own := s.routers[0].Own()
		got = s.routers[0].View(now)
		require.Equal(t, []int64{own.InFlight, own.Waiting, own.Used}, []int64{got.InFlight, got.Waiting, got.Used}, "seed %d", seed)
		require.InDelta(t, own.Pending, got.Pending, 1, "seed %d", seed)
	}
}
