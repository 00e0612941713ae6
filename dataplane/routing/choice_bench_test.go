package routing_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingest"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/radix"
)

// BenchmarkChoice is Pick and Dispatch for a prompt of 8,192 tokens, of which eight ranks hold
// 1,024 to 8,192 and all ranks the first 1,024. Between two choices the benchmark writes 8 MiB,
// as the requests of a busy router do: choices find the ranks' load in memory or in the last
// cache. ns/choice counts Pick and Dispatch alone.
func BenchmarkChoice(b *testing.B) {
	const length = 8192
	for _, ranks := range []int{8, 64, 1000} {
		for _, others := range []int{0, 8 << 20} {
			b.Run(fmt.Sprintf("ranks=%d/others=%dMiB", ranks, others>>20), func(b *testing.B) {
				nodes := make([]*node, ranks)
				for i := range nodes {
					nodes[i] = tiny()
				}
				f := newFleet(b, nodes...)
				for _, rank := range f.ranks {
					rank.SetExact(true)
				}
				ids := tokens(1, length)
				for i := range ranks {
					blocks := 1024 / benchPage
					if i%max(ranks/8, 1) == 0 {
						blocks = length / benchPage / 8 * (1 + i/max(ranks/8, 1)%8)
					}
					f.holds(i, radix.DomainKey{BlockSize: benchPage}, ids, blocks, radix.TierGPU)
				}
				f.busy(rand.New(rand.NewPCG(1, 1)))
				f.shapes = []ingest.Shape{{Model: model, BlockSize: benchPage}}
				r := f.with(policy.KV{Options: policy.Defaults})
				p, memory := prompt(ids), make([]byte, others)
				spent := time.Duration(0)
				b.ReportAllocs()
				b.ResetTimer()
				for n := range b.N {
					for i := 0; i < len(memory); i += 64 {
						memory[i] = byte(n)
					}
					began := time.Now()
					d, err := r.Pick(&f.scratch, p, nil)
					if err != nil {
						b.Fatal(err)
					}
					flight := r.Dispatch(&f.scratch, p, &d)
					spent += time.Since(began)
					r.Withdraw(flight)
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/choice")
			})
		}
	}
}

// busy gives ranks load and reports at random.
func (f *fleet) busy(rng *rand.Rand) {
	for _, rank := range f.ranks {
		for range rng.IntN(4) {
			_ = rank.Load.Begin(rng.IntN(20_000))
		}
		if rng.IntN(2) == 0 {
			rank.Load.Report(time.Now(), worker.Report{
				Running: rng.Int64N(8), Queued: rng.Int64N(10_000), Used: rng.Int64N(50_000), Pool: 100_000, Most: 16,
				Prefilled: 1_000_000, Busy: time.Duration(50+rng.IntN(100)) * time.Second,
			})
		}
	}
}
