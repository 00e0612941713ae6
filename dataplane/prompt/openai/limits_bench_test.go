package openai

import (
	"math/rand/v2"
	"testing"
)

func BenchmarkMaxOf(b *testing.B) {
	ids := make([]uint32, 12_000)
	for i := range ids {
		ids[i] = rand.Uint32N(128_000)
	}
	b.SetBytes(int64(4 * len(ids)))
	for b.Loop() {
		maxOf(ids)
	}
}

func TestMaxOfAgainstEach(t *testing.T) {
	for n := range 100 {
		ids := make([]uint32, n)
		for at := range ids {
			for i := range ids {
				ids[i] = rand.Uint32()
			}
			ids[at] = 1<<32 - 1 - uint32(at&1)
			if got, want := maxOf(ids), maxOfEach(ids); got != want {
				t.Fatalf("maxOf(%v) = %d, want %d", ids, got, want)
			}
		}
	}
}
