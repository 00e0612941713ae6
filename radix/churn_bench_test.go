package radix

import (
	"fmt"
	"slices"
	"testing"
)

// BenchmarkChurn is the cost of events of unique prompts in a cluster with full caches: each
// stores a chain for one of four workers and removes the worker's oldest, from its end. Workers
// have 16,384 blocks each.
func BenchmarkChurn(b *testing.B) {
	for _, n := range []int{4, 90, 700} {
		b.Run(fmt.Sprintf("blocks=%d", n), func(b *testing.B) { benchChurn(b, n) })
	}
}

func benchChurn(b *testing.B, n int) {
	b.Helper()
	const workers, room = 4, 16384
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{Model: "m", BlockSize: 16})
	held := make([][][]uint64, workers) // engine hashes of chains, in a ring; reversed
	var ids []Worker
	for range workers {
		ids = append(ids, x.AddWorker())
	}
	next := uint64(1)
	blocks := make([]Hash, n)
	names := make([]uint64, n)
	turn := func(i int) {
		w := i % workers
		slot := i / workers % (room / n)
		for j := range blocks {
			next += spread
			blocks[j] = Hash(next)
			names[j] = next * 0x2545f4914f6cdd1d
		}
		if len(held[w]) > slot {
			x.Remove(ids[w], TierGPU, held[w][slot])
			copy(held[w][slot], names)
		} else {
			held[w] = append(held[w], slices.Clone(names))
		}
		slices.Reverse(held[w][slot])
		if err := x.Store(Store{Worker: ids[w], Domain: d, Engine: names, Blocks: blocks}); err != nil {
			b.Fatal(err)
		}
	}
	full := workers * (room / n)
	for i := range 4 * full {
		turn(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		turn(i)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/block")
}
