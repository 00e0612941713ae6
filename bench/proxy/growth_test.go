package proxy_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy"
	"github.com/warmpath/warmpath/bench/proxy/load"
	"github.com/warmpath/warmpath/bench/proxy/mock"
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

// TestSoakFindsALeak has a target that loses 100 KiB of heap, as it says, with each request, and one that does not.
func TestSoakFindsALeak(t *testing.T) {
	for _, each := range []uint64{0, 100 << 10} {
		workers, _ := start(t, mock.Config{})
		to, err := url.Parse("http://" + workers.Addrs()[0])
		require.NoError(t, err)
		next := httputil.NewSingleHostReverseProxy(to)
		var requests, collections atomic.Uint64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				fmt.Fprintf(w, "go_goroutines 30\ngo_gc_duration_seconds_count %d\ngo_gc_heap_live_bytes %d\n", collections.Add(2), 20<<20+each*requests.Load())
				return
			}
			requests.Add(1)
			next.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		proxy.Hurry(t)
		cfg := proxy.SoakConfig{
			Load: load.Config{
				Targets: []string{s.Listener.Addr().String()}, API: load.Chat, Size: 300, Tokens: 1, Connections: 4, Timeout: patience, Seed: 1,
			},
			PID: os.Getpid(), Time: time.Second, Progress: io.Discard,
		}
		soak, err := proxy.MeasureSoak(t.Context(), cfg)
		// A busy machine may answer too little in so short a time.
		for ; soak != nil && soak.Rests[4].Requests-soak.Rests[1].Requests < 100 && cfg.Time < patience; cfg.Time *= 4 {
			soak, err = proxy.MeasureSoak(t.Context(), cfg)
		}
		require.NotNil(t, soak, "%v", err)
		var heap proxy.Growth
		for _, g := range soak.Growth {
			if g.What == "heap" {
				heap = g
			}
		}
		require.Equal(t, "heap", heap.What, "%+v", soak.Growth)
		require.Equal(t, each > 0, heap.Grows, "%+v", heap)
		if each > 0 {
			require.ErrorContains(t, err, "heap grew by")
			// What is sent to warm up leaks too and is not counted; on a slow machine that may be more than what is.
			require.Greater(t, heap.Each, 500*float64(each))
			require.Less(t, heap.Each, 20_000*float64(each))
		}
	}
}
