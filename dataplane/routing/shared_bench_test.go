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

// expecting knows n prompts that share a system prompt.
func expecting(now time.Time, n int) *routing.SharedPredictions {
	x := &routing.SharedPredictions{}
	for i := range n {
		p := &routing.Prompt{Tokens: append(tokens(1, 2000), tokens(uint32(2+i), 6000)...)}
		x.Add(now, routing.PromptID{Router: 1, Number: uint64(i)}, uint64(1+i%8), p.Len(), routing.AppendFingerprints(nil, "m", p))
	}
	return x
}

func BenchmarkExpected(b *testing.B) {
	for _, n := range []int{10, 100, 512} {
		b.Run(fmt.Sprintf("prompts=%d", n), func(b *testing.B) {
			now := time.Now()
			x, p := expecting(now, n), &routing.Prompt{Tokens: append(tokens(1, 2000), tokens(7, 6000)...)}
			marks := routing.AppendFingerprints(nil, "m", p)
			b.ReportAllocs()
			for b.Loop() {
				_ = x.Find(now, p.Len(), marks)
			}
		})
	}
}
