package worker

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// account is a load report beside the requests that a router knows at the rank.
type account struct{ Running, Waiting, Queued, Used, Pool, Flight, Pending, Held int64 }

func (a account) find() finding {
	return findUsed(&Report{Running: a.Running, Waiting: a.Waiting, Queued: a.Queued, Used: a.Used, Pool: a.Pool},
		peaks{flight: a.Flight, pending: a.Pending, held: a.Held})
}

func TestFindUsed(t *testing.T) {
	tests := []struct {
		name string
		a    account
		want finding
	}{
		{"idle and empty", account{Pool: 1000}, agrees},
		{"idle and full", account{Used: 990, Pool: 1000}, contradicts},
		{"idle, a few pages locked", account{Used: 125, Pool: 1000}, agrees},
		{"no pool is told", account{Used: 990}, silent},
		{"one request that can hold little", account{Running: 1, Used: 990, Pool: 1000, Flight: 1, Held: 100}, contradicts},
		{"requests that could hold it", account{Running: 9, Used: 990, Pool: 1000, Flight: 9, Held: 900}, silent},
		{"requests that could hold it and do not", account{Running: 9, Used: 90, Pool: 1000, Flight: 9, Held: 900}, silent},
		{"requests that hold what they can", account{Running: 2, Used: 300, Pool: 1000, Flight: 2, Held: 300}, agrees},
		{"somebody else's request runs", account{Running: 1, Used: 990, Pool: 1000}, unseen},
		{"somebody else's request waits", account{Waiting: 1, Used: 990, Pool: 1000}, unseen},
		{"somebody else's long prompt is computed in chunks", account{Queued: 700, Used: 990, Pool: 1000}, unseen},
		{"a prefill leg whose pages travel", account{Used: 800, Pool: 1000, Flight: 1, Held: 800}, silent},
		{"requests of another router that tells", account{Running: 2, Used: 400, Pool: 1000, Flight: 2, Held: 400}, silent},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, tt.a.find(), tt.name)
	}
}

// TestFindUsedProperties: a rank that counts just the pages of its requests is never
// contradicted, and an idle one that counts more always is.
func TestFindUsedProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		pool := 1 + rng.Int64N(1<<uint(1+rng.IntN(30)))
		a := account{Pool: pool}
		unseen, computing := 0, 0
		for range rng.IntN(20) {
			prompt, answer := rng.Int64N(pool), rng.Int64N(1+pool/4)
			holds := min(prompt+rng.Int64N(answer+1), pool-a.Used)
			mine := rng.IntN(8) > 0
			if mine {
				a.Flight, a.Held = a.Flight+1, a.Held+prompt+answer
			} else {
				unseen++
			}
			switch stage := rng.IntN(3); {
			case stage == 0: // waiting: it holds nothing
				a.Waiting++
			case stage == 1 || !mine:
				a.Running, a.Used = a.Running+1, a.Used+holds
			default: // in the batch that is being computed, which SGLang counts nowhere
				a.Used += holds
				computing++
			}
		}
		if unseen > 0 && computing > 0 { // one hides the other until the batch is computed
			continue
		}
		require.NotEqual(t, contradicts, a.find(), "%+v", a)
		idle := account{Pool: pool, Used: pool/8 + 1 + rng.Int64N(pool)}
		require.Equal(t, contradicts, idle.find(), "%+v", idle)
	}
}

func TestFieldCheck(t *testing.T) {
	const s, u, a, c = silent, unseen, agrees, contradicts
	tests := []struct {
		name  string
		every float64
		heard []finding
		want  bool
	}{
		{"nothing", 1, nil, false},
		{"two", 1, []finding{c, c}, false},
		{"for long enough", 1, []finding{c, c, c, c}, true},
		{"many within a moment", 0.02, []finding{c, c, c, c, c, c, c, c}, false},
		{"rarely", 10, []finding{c, c, c}, true},
		{"broken by one that agrees", 1, []finding{c, c, c, a, c, c, c}, false},
		{"broken by a request of others", 1, []finding{c, c, c, u, c, c, c}, false},
		{"not broken by silence", 1, []finding{c, c, s, c, c}, true},
		{"believed again", 1, []finding{c, c, c, c, a, a, a, a}, false},
		{"not by silence", 1, []finding{c, c, c, c, s, s, s, s, s, s}, true},
		{"the second time later", 1, []finding{c, c, c, c, a, a, a, a, c, c, c, c, a, a, a, a}, true},
		{"the second time at last", 1, []finding{c, c, c, c, a, a, a, a, c, c, c, c, a, a, a, a, a, a, a}, false},
	}
	for _, tt := range tests {
		var d fieldCheck
		changes, at := 0, time.Unix(1000, 0)
		for _, f := range tt.heard {
			before := d.aside
			if d.add(at, f) {
				changes++
				require.NotEqual(t, before, d.aside, tt.name)
			}
			at = at.Add(time.Duration(tt.every * float64(time.Second)))
		}
		require.Equal(t, tt.want, d.aside, tt.name)
		require.Equal(t, tt.want, changes%2 == 1, tt.name)
	}
}

func equalSamples(n int, g speedSample) []speedSample {
	many := make([]speedSample, n)
	for i := range many {
		many[i] = g
	}
	return many
}

// evidence is the basis on which a speed is believed.
type evidence struct {
	samples []speedSample
	similar float64
	aside   bool
}

func (e evidence) believe(claimed float64) (speed float64, why string) {
	c := speedCheck{seen: len(e.samples)}
	copy(c.samples[:], e.samples)
	if e.aside {
		c.why = whyFast
	}
	return c.believe(claimed, e.similar)
}

func TestBelieveSpeed(t *testing.T) {
	honest := speedSample{least: 14_000, most: 18_000}
	tests := []struct {
		name     string
		reported float64
		on       evidence
		low, up  float64
		aside    bool
	}{
		{"unknown", 0, evidence{samples: equalSamples(16, honest), similar: 16_000}, 0, 0, false},
		{"nothing to compare with", 574_000, evidence{}, 574_000, 574_000, false},
		{"true", 16_000, evidence{samples: equalSamples(16, honest), similar: 16_000}, 16_000, 16_000, false},
		{"far too fast, and so are all", 574_000, evidence{samples: equalSamples(16, honest), similar: 500_000}, 16_000, 20_000, true},
		{"too fast among equals", 54_000, evidence{samples: equalSamples(16, honest), similar: 16_000}, 16_000, 20_000, true},
		{"as fast as its equals: jitter", 54_000, evidence{samples: equalSamples(16, honest), similar: 54_000}, 54_000, 54_000, false},
		{"too few first bytes: peers bound it", 574_000, evidence{samples: equalSamples(7, honest), similar: 16_000}, 64_000, 64_000, true},
		{"an H100 beside L4s", 30_000, evidence{samples: equalSamples(16, speedSample{least: 25_000, most: 33_000}), similar: 2_000}, 30_000, 30_000, false},
		{"an L4 beside H100s", 2_000, evidence{samples: equalSamples(16, speedSample{least: 1_800, most: 2_300}), similar: 30_000}, 2_000, 2_000, false},
		{"an L4 that nobody asks", 2_000, evidence{similar: 30_000}, 2_000, 2_000, false},
		{"far too slow", 300, evidence{samples: equalSamples(16, honest)}, 14_000, 14_000, true},
		{"far too slow among equals", 300, evidence{samples: equalSamples(16, honest), similar: 16_000}, 16_000, 16_000, true},
		{"too slow, caches not known", 300, evidence{samples: equalSamples(16, speedSample{most: 18_000}), similar: 16_000}, 300, 300, false},
		{"some hidden queues", 16_000, evidence{samples: append(equalSamples(9, honest), equalSamples(7, speedSample{least: 100, most: 150})...)}, 16_000, 16_000, false},
		{"some prompts were cached", 16_000, evidence{samples: append(equalSamples(11, honest), equalSamples(5, speedSample{least: 4e5, most: 5e5})...)}, 16_000, 16_000, false},
		{"set aside, still doubtful", 100_000, evidence{samples: append(equalSamples(9, honest), equalSamples(7, speedSample{least: 6e4, most: 9e4})...), aside: true}, 18_000, 90_000, true},
		{"no first byte at all", 100, evidence{samples: equalSamples(16, speedSample{})}, 0, 0, true},
	}
	for _, tt := range tests {
		speed, why := tt.on.believe(tt.reported)
		require.GreaterOrEqual(t, speed, tt.low, tt.name)
		require.LessOrEqual(t, speed, tt.up, tt.name)
		require.Equal(t, tt.aside, why != "", "%s: %s", tt.name, why)
	}
}

// TestBelieveSpeedProperties: on ranks of any speed, with jitter and some hidden queues, true
// reports are believed, and reports that are wrong by a factor of ten come out within a factor of
// three of the truth.
func TestBelieveSpeedProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		truth := 200 * float64(uint(1)<<rng.IntN(11)) * (1 + rng.Float64())
		seen := make([]speedSample, 8+rng.IntN(9))
		for i := range seen {
			own := 4096 + rng.Float64()*30_000
			work := own * (1 + rng.Float64()) // others in the same batch
			took := work/truth + rng.Float64()*0.3*own/truth
			if i%5 == 4 { // a request that this router does not know of
				took += work / truth * 5 * rng.Float64()
			}
			seen[i] = speedSample{least: float32(own / took), most: float32(work / took)}
		}
		peers := [...]float64{0, truth, truth / 20, truth * 20}[rng.IntN(4)]
		speed, why := evidence{samples: seen, similar: peers}.believe(truth)
		require.Equal(t, truth, speed, "%s: peers %v of %v, %+v", why, peers, truth, seen)
		for _, lie := range []float64{truth * 10, truth / 10} {
			speed, _ := evidence{samples: seen, similar: peers}.believe(lie)
			require.InDelta(t, 1.5, speed/truth, 1.5, "%v for %v: peers %v, %+v", lie, truth, peers, seen)
			require.Greater(t, speed/truth, 0.3)
		}
	}
}

// TestPoolOfUnknownRequests: requests that may hold the rest of a pool explain its evictions.
func TestPoolOfUnknownRequests(t *testing.T) {
	require.Equal(t, silent, findPool(PoolContent{Tokens: 100}, 0, 0))
	require.Equal(t, silent, findPool(PoolContent{Tokens: 100}, 1000, 0))
	evicting := PoolContent{Tokens: 300, Evicting: true}
	require.Equal(t, contradicts, findPool(evicting, 1000, 200))
	require.Equal(t, agrees, findPool(evicting, 1000, 600))
	require.Equal(t, agrees, findPool(evicting, 1000, 600))
}
