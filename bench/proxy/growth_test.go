package proxy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy"
)

func TestGrowth(t *testing.T) {
	tests := []struct {
		name  string
		rests []int // descriptors after each 10,000 requests
		added float64
		grows bool
	}{
		{"steady", []int{1000, 1000, 1000, 1000, 1000}, 0, false},
		{"up and down", []int{1000, 1014, 1000, 1013, 1001}, -7.25, false},
		{"filling up in the first round", []int{100, 1000, 1000, 1001, 1000}, 0, false},
		{"one outlier", []int{1000, 1000, 1000, 9000, 1000}, 0, false},
		{"less", []int{1000, 900, 800, 700, 600}, -300, false},
		{"a leak of 0.6 in 1,000", []int{1000, 1006, 1012, 1018, 1024}, 18, true},
		{"a leak below the slack", []int{1000, 1005, 1010, 1015, 1020}, 15, false},
		{"a leak and an outlier", []int{1000, 1020, 1040, 5000, 1080}, 60, true},
		{"from nothing", []int{0, 0, 20, 40, 60}, 60, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rests []proxy.Sample
			for i, n := range tt.rests {
				rests = append(rests, proxy.Sample{Requests: uint64(i+1) * 10_000, Descriptors: n})
			}
			g := proxy.GrowthOf(rests, 16)
			require.Equal(t, tt.grows, g.Grows, "%+v", g)
			require.InDelta(t, tt.added, g.Added, 1e-6)
			require.InDelta(t, tt.added/30, g.Each, 1e-6)
		})
	}
	require.False(t, proxy.GrowthOf(nil, 16).Grows)
	require.False(t, proxy.GrowthOf(make([]proxy.Sample, 5), 16).Grows, "nothing was answered")
}

// TestJudge: what a router holds at its rests, as far as it says so, with a little noise; and then with one thing that leaks.
func TestJudge(t *testing.T) {
	leaks := map[string]func(x *proxy.Sample, requests int64){
		"":            func(*proxy.Sample, int64) {},
		"memory":      func(x *proxy.Sample, n int64) { x.RSS += 10 * n },
		"descriptors": func(x *proxy.Sample, n int64) { x.Descriptors += int(n / 100_000) },
		"threads":     func(x *proxy.Sample, n int64) { x.Threads += int(n / 100_000) },
		"goroutines":  func(x *proxy.Sample, n int64) { x.Goroutines += int(n / 100_000) },
		"heap":        func(x *proxy.Sample, n int64) { x.Heap += 2 * n },
		"bounded":     func(x *proxy.Sample, n int64) { x.Heap, x.Bounded = x.Heap+4*n, x.Bounded+4*n },
	}
	for what, leak := range leaks {
		for _, quantities := range []bool{true, false} { // false: not a router in Go
			noise := rand.New(rand.NewPCG(1, 2))
			var rests []proxy.Sample
			for i := range 5 {
				n := int64(i+1) * 800_000
				x := proxy.Sample{Requests: uint64(n), RSS: 60<<20 + noise.Int64N(4<<20), Descriptors: 24 + noise.IntN(2), Threads: 7}
				if quantities {
					x.Goroutines, x.Heap, x.Bounded = 36+noise.IntN(3), 18<<20+noise.Int64N(1<<20), 6<<20
				}
				if leak(&x, n); !quantities {
					x.Goroutines, x.Heap = 0, 0
				}
				rests = append(rests, x)
			}
			s, err := proxy.JudgeOf(rests)
			silent := !quantities && (what == "goroutines" || what == "heap")
			if what == "" || what == "bounded" || silent {
				require.NoError(t, err, "%q", what)
				require.Equal(t, proxy.Steady, s.Verdict)
				continue
			}
			require.ErrorIs(t, err, proxy.ErrFailed)
			require.ErrorContains(t, err, what+" grew by")
			require.Equal(t, proxy.Grows, s.Verdict)
		}
	}
}
