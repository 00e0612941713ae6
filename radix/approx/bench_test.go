package approx_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/radix/approx"
)

// filled returns a tree of 64 workers with conversations of size bytes and a common first KiB,
// and the chains of 1,024 of them.
func filled(b *testing.B, size int) (*approx.Tree, [][]approx.Key) {
	b.Helper()
	tree := approx.New(approx.Config{})
	for w := range approx.Worker(64) {
		tree.AddWorker(w, 0)
	}
	chains := make([][]approx.Key, 1024)
	for i := range chains {
		text := prompt(nil, uint64(i), size, 1024)
		chains[i] = tree.AppendText(nil, 0, text)
		// Three turns on one worker; every eighth conversation was on a second worker, too.
		for turn := 1; turn <= 3; turn++ {
			tree.Insert(approx.Worker(i%64), chains[i][:len(chains[i])*turn/3])
		}
		if i%8 == 0 {
			tree.Insert(approx.Worker((i+1)%64), chains[i])
		}
	}
	return tree, chains
}

var sizes = []int{8 << 10, 64 << 10}

// BenchmarkRequestKnown is a request with known text: look up, insert, correct.
func BenchmarkRequestKnown(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("workers=64/bytes=%d", size), func(b *testing.B) {
			tree, chains := filled(b, size)
			b.ReportAllocs()
			b.ResetTimer()
			var next atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				r := rand.New(rand.NewPCG(next.Add(1), 0))
				found := make([]approx.Overlap, 0, 64)
				for pb.Next() {
					i := r.IntN(len(chains))
					found = tree.Match(found[:0], chains[i])
					w := approx.Worker(i % 64)
					tree.Correct(w, chains[i], tree.Insert(w, chains[i]), len(chains[i]))
				}
			})
		})
	}
}

// BenchmarkRequestNew is a request with new text at the memory bound: look up, insert with
// evictions, correct.
func BenchmarkRequestNew(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("workers=64/bytes=%d", size), func(b *testing.B) {
			tree := approx.New(approx.Config{MaxBytes: 16 << 20})
			for w := range approx.Worker(64) {
				tree.AddWorker(w, 0)
			}
			b.ReportAllocs()
			var next atomic.Uint64
			one := func(chain []approx.Key, found []approx.Overlap, id uint64) []approx.Overlap {
				for j := range chain {
					chain[j] = approx.Key(id<<20 | uint64(j))
				}
				found = tree.Match(found[:0], chain)
				w := approx.Worker(id % 64)
				tree.Correct(w, chain, tree.Insert(w, chain), 0)
				return found
			}
			first := tree.AppendText(nil, 0, prompt(nil, 1, size, 0))
			for id := range uint64(40_000) {
				one(first, nil, id+1<<30)
			}
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				chain := tree.AppendText(nil, 0, prompt(nil, 1, size, 0))
				found := make([]approx.Overlap, 0, 64)
				for pb.Next() {
					found = one(chain, found, next.Add(1))
				}
			})
			b.StopTimer()
			if s := tree.Stats(); s.EvictedMemory == 0 || s.Bytes > s.MaxBytes {
				b.Errorf("the bound was not at work: %+v", s)
			}
		})
	}
}
