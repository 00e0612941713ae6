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
					got.Claimed, got.ClaimedTokens, got.Routers = 0, 0, 0
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

// heard is a rank that reports twice a second what it has, and a router that hears of it.
type heard struct {
	worker.Load
	now    time.Time
	report worker.Report
	told   worker.RouterLoad
}

// tell replaces the claim of another router.
func (h *heard) tell(is worker.RouterLoad) {
	h.ReplacePeer(h.now, h.told, is)
	h.told = is
}

// pass lets half a second pass, in which claim is called every 5 ms, and then reports.
func (h *heard) pass(claim func(i int)) {
	for i := range 100 {
		h.now = h.now.Add(5 * time.Millisecond)
		claim(i)
	}
	h.report.Prefilled += 500
	h.report.Busy += 50 * time.Millisecond
	h.Report(h.now, h.report)
}

const endless = 1 << 50

// falseClaims are those of another router every 5 ms, i of 100 between two reports.
var falseClaims = map[string]func(h *heard, i int){
	"requests without end": func(h *heard, _ int) {
		h.tell(worker.RouterLoad{InFlight: endless, Waiting: endless, Pending: endless, Used: endless, Held: endless, Sent: endless})
	},
	"requests between reports": func(h *heard, i int) {
		if i%99 == 0 { // the last and the first 5 ms
			h.tell(worker.RouterLoad{Sent: h.told.Sent})
		} else {
			h.tell(worker.RouterLoad{InFlight: 900, Waiting: 900, Pending: 90_000, Used: 90_000, Held: 90_000, Sent: h.told.Sent + 90_000})
		}
	},
	"a long prompt between reports": func(h *heard, i int) {
		h.tell(worker.RouterLoad{InFlight: 1, Waiting: 1, Pending: int64(i%2) << 20, Sent: h.told.Sent + int64(i%2)<<20})
	},
	"one request that computes on": func(h *heard, _ int) {
		h.tell(worker.RouterLoad{InFlight: 1, Waiting: 1, Pending: 8000, Sent: h.told.Sent + 8000})
	},
}

// TestClaimsWithoutReports: a rank that reports nothing, or nothing any more, looks with any claim of another router
// as with the double of this router's requests and a few, after two seconds of prompts of this router's only, and never computing.
func TestClaimsWithoutReports(t *testing.T) {
	for name, claim := range falseClaims {
		for _, reported := range []bool{false, true} {
			h := heard{now: time.Unix(1000, 0), report: worker.Report{Running: 3, Used: 3000, Pool: 1 << 20, Most: 64}}
			h.SetRouters(2)
			h.SetSimilarSpeed(h.now, 10_000)
			for range 3 {
				lease := h.BeginWork(h.now, worker.Work{Uncached: 100, Prompt: 1000})
				lease.FirstByteAt(h.now)
			}
			if reported {
				for range 10 {
					h.pass(func(int) {})
				}
			}
			waiting := h.BeginWork(h.now, worker.Work{Uncached: 500, Prompt: 500, Streams: true})
			for n := range 4000 {
				h.now = h.now.Add(5 * time.Millisecond)
				if claim(&h, n%100); reported && n < 2000 {
					if n%100 == 99 {
						h.Report(h.now, h.report)
					}
					continue // and 5 s more
				} else if reported && n < 3000 {
					continue
				}
				v := h.View(h.now)
				require.LessOrEqual(t, v.InFlight, int64(4+4+8), name)
				require.LessOrEqual(t, v.Waiting, int64(1+4+8), name)
				require.LessOrEqual(t, v.Used, int64(2*800+8192), name)
				if n > 20 { // this router's own are computed
					require.Zero(t, v.Batch.Left, name)
				}
				require.LessOrEqual(t, v.Pending, int64(1000+8192), name)
				if n > 1000 && n%100 < 90 {
					require.LessOrEqual(t, v.Pending-v.ClaimedTokens, int64(500), name)
				}
				if name == "requests without end" && n > 400 {
					require.LessOrEqual(t, v.Pending, int64(1000), name)
				}
			}
			waiting.End()
		}
	}
}

// TestReportsOutweighOtherRouters: whatever another router claims, for as long as it likes, a rank
// that reports little work does not look full for long, nor computing.
func TestReportsOutweighOtherRouters(t *testing.T) {
	for name, claim := range falseClaims {
		h := heard{now: time.Unix(1000, 0), report: worker.Report{Running: 3, Used: 3000, Pool: 1 << 20, Most: 64}}
		for range 3 {
			lease := h.BeginWork(h.now, worker.Work{Uncached: 100, Prompt: 1000})
			lease.FirstByteAt(h.now)
		}
		for range 40 {
			h.pass(func(int) {})
		}
		want := h.View(h.now)
		for n := range 40 {
			h.pass(func(i int) {
				claim(&h, i)
				if n < 12 {
					return
				}
				v := h.View(h.now)
				require.LessOrEqual(t, v.InFlight, int64(4), name)
				require.LessOrEqual(t, v.Pending, int64(8000), name)
				require.LessOrEqual(t, v.Used, want.Used+10_000, name)
				require.LessOrEqual(t, v.Batch.Left, 0.5, name)
			})
		}
		h.tell(worker.RouterLoad{Sent: h.told.Sent})
		h.pass(func(int) {})
		got := h.View(h.now)
		got.Age, got.Rate, want.Rate = want.Age, 0, 0
		require.Equal(t, want, got, "%s: nothing is left of it", name)
	}
}

// TestOtherRoutersAreBelieved: what the rank's reports bear out counts at once, with its prompts, and
// again after a lie.
func TestOtherRoutersAreBelieved(t *testing.T) {
	h := heard{now: time.Unix(1000, 0), report: worker.Report{Running: 40, Waiting: 10, Queued: 100_000, Pool: 1 << 20, Most: 64}}
	truth := worker.RouterLoad{InFlight: 50, Waiting: 10, Pending: 100_000, Used: 60_000, Held: 90_000}
	for range 20 {
		h.pass(func(int) { h.tell(truth) })
		require.EqualValues(t, 50, h.PeersInFlight())
		require.Equal(t, [...]int64{50, 10}, [...]int64{h.View(h.now).InFlight, h.View(h.now).Waiting})
	}
	more := truth
	more.InFlight, more.Waiting = 70, 30
	h.tell(more)
	require.Equal(t, [...]int64{70, 30}, [...]int64{h.View(h.now).InFlight, h.View(h.now).Waiting}, "before the next report")
	for range 6 {
		h.pass(func(int) {})
	}
	require.EqualValues(t, 50, h.View(h.now).InFlight, "no report has them")
	h.report.Running = 60
	for range 6 {
		h.pass(func(int) {})
	}
	require.EqualValues(t, 70, h.View(h.now).InFlight)
	require.Empty(t, h.SetAside())
}
