package routing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmpath/warmpath/dataplane/routing"
)

func BenchmarkMarks(b *testing.B) {
	for _, n := range []int{1000, 8192, 100_000} {
		b.Run(fmt.Sprintf("tokens=%d", n), func(b *testing.B) {
			p, marks := &routing.Prompt{Tokens: tokens(1, n)}, []uint32(nil)
			b.ReportAllocs()
			for b.Loop() {
				marks = routing.AppendFingerprints(marks[:0], "m", p)
			}
			b.ReportMetric(float64(4*len(marks)), "message-bytes")
		})
	}
}

// BenchmarkExpected chooses beside prompts of another router that share a system prompt.
func BenchmarkExpected(b *testing.B) {
	for _, n := range []int{0, 10, 100, 512} {
		b.Run(fmt.Sprintf("prompts=%d", n), func(b *testing.B) {
			f := newFleet(b, tiny(), tiny())
			for i := range n {
				p := &routing.Prompt{Tokens: append(tokens(1, 2000), tokens(uint32(2+i), 6000)...)}
				f.router.Shared.Add(time.Now(), routing.PromptID{Router: 1, Number: uint64(i)}, f.ranks[i%2], routing.AppendFingerprints(nil, model, p))
			}
			p := prompt(append(tokens(1, 2000), tokens(7, 6000)...))
			b.ReportAllocs()
			for b.Loop() {
				f.pick(p)
			}
		})
	}
}
