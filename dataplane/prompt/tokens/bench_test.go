package tokens_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

func BenchmarkHit(b *testing.B) {
	for _, size := range []int{300, 8 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("prompt=%d", size), func(b *testing.B) {
			s := newSource(b, tokens.Config{Fetch: &worker{}})
			req := prompt(b, strings.Repeat("x", size))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Prompt(nil, "http://a", req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHitParallel(b *testing.B) {
	s := newSource(b, tokens.Config{Fetch: &worker{}})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		req := prompt(b, strings.Repeat("x", 300))
		for pb.Next() {
			if _, err := s.Prompt(nil, "http://a", req); err != nil {
				b.Error(err)
			}
		}
	})
}
