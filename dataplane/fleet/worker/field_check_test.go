package worker_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestFindUsed(t *testing.T) {
	tests := []struct {
		name string
		a    worker.Account
		want worker.Finding
	}{
		{"idle and empty", worker.Account{Pool: 1000}, worker.Agrees},
		{"idle and full", worker.Account{Used: 990, Pool: 1000}, worker.Contradict},
		{"idle, a few pages locked", worker.Account{Used: 125, Pool: 1000}, worker.Agrees},
		{"no pool is told", worker.Account{Used: 990}, worker.Silent},
		{"one request that can hold little", worker.Account{Running: 1, Used: 990, Pool: 1000, Flight: 1, Held: 100}, worker.Contradict},
		{"requests that could hold it", worker.Account{Running: 9, Used: 990, Pool: 1000, Flight: 9, Held: 900}, worker.Silent},
		{"requests that could hold it and do not", worker.Account{Running: 9, Used: 90, Pool: 1000, Flight: 9, Held: 900}, worker.Silent},
		{"requests that hold what they can", worker.Account{Running: 2, Used: 300, Pool: 1000, Flight: 2, Held: 300}, worker.Agrees},
		{"somebody else's request runs", worker.Account{Running: 1, Used: 990, Pool: 1000}, worker.Unseen},
		{"somebody else's request waits", worker.Account{Waiting: 1, Used: 990, Pool: 1000}, worker.Unseen},
		{"somebody else's long prompt is computed in chunks", worker.Account{Queued: 700, Used: 990, Pool: 1000}, worker.Unseen},
		{"a prefill leg whose pages travel", worker.Account{Used: 800, Pool: 1000, Flight: 1, Held: 800}, worker.Silent},
		{"requests of another router that tells", worker.Account{Running: 2, Used: 400, Pool: 1000, Flight: 2, Held: 400}, worker.Silent},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, worker.FindUsed(tt.a), tt.name)
	}
}

// TestFindUsedProperties: no rank that counts just what its requests hold is ever contradicted,
// whoever sent them, and an idle one that counts more always is.
func TestFindUsedProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		pool := 1 + rng.Int64N(1<<uint(1+rng.IntN(30)))
		a := worker.Account{Pool: pool}
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
		require.NotEqual(t, worker.Contradict, worker.FindUsed(a), "%+v", a)
		idle := worker.Account{Pool: pool, Used: pool/8 + 1 + rng.Int64N(pool)}
		require.Equal(t, worker.Contradict, worker.FindUsed(idle), "%+v", idle)
	}
}

func TestFieldCheck(t *testing.T) {
	const s, u, a, c = worker.Silent, worker.Unseen, worker.Agrees, worker.Contradict
	tests := []struct {
		name  string
		every float64
		heard []worker.Finding
		want  bool
	}{
		{"nothing", 1, nil, false},
		{"two", 1, []worker.Finding{c, c}, false},
		{"for long enough", 1, []worker.Finding{c, c, c, c}, true},
		{"many within a moment", 0.02, []worker.Finding{c, c, c, c, c, c, c, c}, false},
		{"rarely", 10, []worker.Finding{c, c, c}, true},
		{"broken by one that agrees", 1, []worker.Finding{c, c, c, a, c, c, c}, false},
		{"broken by a request of others", 1, []worker.Finding{c, c, c, u, c, c, c}, false},
		{"not broken by silence", 1, []worker.Finding{c, c, s, c, c}, true},
		{"believed again", 1, []worker.Finding{c, c, c, c, a, a, a, a}, false},
		{"not by silence", 1, []worker.Finding{c, c, c, c, s, s, s, s, s, s}, true},
		{"the second time later", 1, []worker.Finding{c, c, c, c, a, a, a, a, c, c, c, c, a, a, a, a}, true},
		{"the second time at last", 1, []worker.Finding{c, c, c, c, a, a, a, a, c, c, c, c, a, a, a, a, a, a, a}, false},
	}
	for _, tt := range tests {
		var d worker.FieldCheck
		changes, at := 0, 1000.0
		for _, f := range tt.heard {
			before := d.Aside()
			if d.Add(at, f) {
				changes++
				require.NotEqual(t, before, d.Aside(), tt.name)
			}
			at += tt.every
		}
		require.Equal(t, tt.want, d.Aside(), tt.name)
		require.Equal(t, tt.want, changes%2 == 1, tt.name)
	}
}

func all(n int, g worker.SpeedSample) []worker.SpeedSample {
	many := make([]worker.SpeedSample, n)
	for i := range many {
		many[i] = g
	}
	return many
}

func TestBelieveSpeed(t *testing.T) {
	honest := worker.SpeedSample{Least: 14_000, Most: 18_000}
	tests := []struct {
		name     string
		reported float64
		on       worker.SpeedBasis
		low, up  float64
		aside    bool
	}{
		{"unknown", 0, worker.SpeedBasis{Samples: all(16, honest), Similar: 16_000}, 0, 0, false},
		{"nothing to compare with", 574_000, worker.SpeedBasis{}, 574_000, 574_000, false},
		{"true", 16_000, worker.SpeedBasis{Samples: all(16, honest), Similar: 16_000}, 16_000, 16_000, false},
		{"far too fast, and so are all", 574_000, worker.SpeedBasis{Samples: all(16, honest), Similar: 500_000}, 16_000, 20_000, true},
		{"too fast among equals", 54_000, worker.SpeedBasis{Samples: all(16, honest), Similar: 16_000}, 16_000, 20_000, true},
		{"as fast as its equals: jitter", 54_000, worker.SpeedBasis{Samples: all(16, honest), Similar: 54_000}, 54_000, 54_000, false},
		{"too few first bytes: peers bound it", 574_000, worker.SpeedBasis{Samples: all(7, honest), Similar: 16_000}, 64_000, 64_000, true},
		{"an H100 beside L4s", 30_000, worker.SpeedBasis{Samples: all(16, worker.SpeedSample{Least: 25_000, Most: 33_000}), Similar: 2_000}, 30_000, 30_000, false},
		{"an L4 beside H100s", 2_000, worker.SpeedBasis{Samples: all(16, worker.SpeedSample{Least: 1_800, Most: 2_300}), Similar: 30_000}, 2_000, 2_000, false},
		{"an L4 that nobody asks", 2_000, worker.SpeedBasis{Similar: 30_000}, 2_000, 2_000, false},
		{"far too slow", 300, worker.SpeedBasis{Samples: all(16, honest)}, 14_000, 14_000, true},
		{"far too slow among equals", 300, worker.SpeedBasis{Samples: all(16, honest), Similar: 16_000}, 16_000, 16_000, true},
		{"too slow, caches not known", 300, worker.SpeedBasis{Samples: all(16, worker.SpeedSample{Most: 18_000}), Similar: 16_000}, 300, 300, false},
		{"some hidden queues", 16_000, worker.SpeedBasis{Samples: append(all(9, honest), all(7, worker.SpeedSample{Least: 100, Most: 150})...)}, 16_000, 16_000, false},
		{"some prompts were cached", 16_000, worker.SpeedBasis{Samples: append(all(11, honest), all(5, worker.SpeedSample{Least: 4e5, Most: 5e5})...)}, 16_000, 16_000, false},
		{"set aside, still doubtful", 100_000, worker.SpeedBasis{Samples: append(all(9, honest), all(7, worker.SpeedSample{Least: 6e4, Most: 9e4})...), Aside: true}, 18_000, 90_000, true},
		{"no first byte at all", 100, worker.SpeedBasis{Samples: all(16, worker.SpeedSample{})}, 0, 0, true},
	}
	for _, tt := range tests {
		speed, why := worker.BelieveSpeed(tt.reported, tt.on)
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
		seen := make([]worker.SpeedSample, 8+rng.IntN(9))
		for i := range seen {
			own := 4096 + rng.Float64()*30_000
			work := own * (1 + rng.Float64()) // others in the same batch
			took := work/truth + rng.Float64()*0.3*own/truth
			if i%5 == 4 { // a request that this router does not know of
				took += work / truth * 5 * rng.Float64()
			}
			seen[i] = worker.SpeedSample{Least: float32(own / took), Most: float32(work / took)}
		}
		peers := [...]float64{0, truth, truth / 20, truth * 20}[rng.IntN(4)]
		speed, why := worker.BelieveSpeed(truth, worker.SpeedBasis{Samples: seen, Similar: peers})
		require.Equal(t, truth, speed, "%s: peers %v of %v, %+v", why, peers, truth, seen)
		for _, lie := range []float64{truth * 10, truth / 10} {
			speed, _ := worker.BelieveSpeed(lie, worker.SpeedBasis{Samples: seen, Similar: peers})
			require.InDelta(t, 1.5, speed/truth, 1.5, "%v for %v: peers %v, %+v", lie, truth, peers, seen)
			require.Greater(t, speed/truth, 0.3)
		}
	}
}
