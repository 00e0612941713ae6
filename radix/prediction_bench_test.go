package radix

import (
	"slices"
	"testing"
)

// BenchmarkPredict predicts a prompt of 1,024 blocks and forgets it: a prompt that is predicted
// already, one that extends such a prompt by 16 blocks, and an unknown one.
func BenchmarkPredict(b *testing.B) {
	const blocks, known = 1024, 1008
	for _, kind := range []struct {
		name  string
		known int
	}{{"known", blocks}, {"longer", known}, {"cold", 0}} {
		b.Run(kind.name, func(b *testing.B) {
			x := New(Config{Seed: 1})
			const w = Worker(0)
			c, _ := sequence(1, blocks)
			var before, p Prediction
			x.Predict(&before, w, 0, c[:kind.known])
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				x.Predict(&p, w, 0, c)
				p.Confirm()
				p.Forget()
			}
		})
	}
}

// BenchmarkMatchPredicted looks up a prompt of 1,024 blocks beside 256 other predictions: one
// of them, one with their prefix, and an unknown one.
func BenchmarkMatchPredicted(b *testing.B) {
	for _, common := range []int{1024, 512, 0} {
		b.Run(map[int]string{1024: "known", 512: "half", 0: "stranger"}[common], func(b *testing.B) {
			x := New(Config{Seed: 1})
			prefix, _ := sequence(1, common)
			all := make([]Prediction, 256)
			for i := range all {
				rest, _ := sequence(uint64(2+i), 1024-common)
				x.Predict(&all[i], Worker(i%16), 0, append(prefix[:common:common], rest...))
			}
			rest, _ := sequence(1000, 1024-common)
			c, buf := slices.Concat(prefix, rest), make([]Overlap, 0, 16)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				buf = x.MatchPredicted(buf[:0], 0, c)
			}
		})
	}
}
