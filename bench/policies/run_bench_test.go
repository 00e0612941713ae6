package policies_test

import (
	"testing"

	"github.com/warmpath/warmpath/bench/policies"
)

// BenchmarkSimulate plays 10,000 requests of chats; its ns/op over 10,000 is the cost of one
// simulated request.
func BenchmarkSimulate(b *testing.B) {
	trace, err := policies.Synthetic("conversations", 1, 10_000)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"round-robin", "kv", policies.Greedy} {
		for _, workers := range []int{8, 64} {
			cfg := policies.Config{Workers: workers, Rate: float64(workers) / 8}
			b.Run(name+map[int]string{8: "/workers=8", 64: "/workers=64"}[workers], func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := policies.Simulate(b.Context(), "chats", trace, cfg, []string{name}, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
