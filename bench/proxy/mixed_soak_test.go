//go:build soak

package proxy_test

import (
	"fmt"
	"io"
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

// TestMixedSoak: all kinds of requests are sent and answered, though clients leave and workers fail.
func TestMixedSoak(t *testing.T) {
	workers, router := start(t, mock.Config{Events: true, Tokenize: true})
	proxy.Hurry(t)
	s, err := proxy.MeasureSoak(t.Context(), proxy.SoakConfig{
		Load: load.Config{Targets: []string{router.Addr()}, Timeout: patience, Seed: 1}, PID: os.Getpid(), Time: time.Second,
		Workers: workers.Addrs(), Progress: io.Discard,
	})
	require.NotNil(t, s, "%v", err)
	require.Len(t, s.Runs, 7)
	answered := uint64(0)
	for i, r := range s.Runs {
		require.Positive(t, s.Capacity[i])
		answered += r.OK
		// On a slow machine a request can meet a fault, which are 300 ms apart here, at each of its attempts, or all workers seem to hang; then
		// the router says so. What it could do before may be more than it can do now. No answer is cut or wrong.
		for cause, n := range r.Errors {
			require.Contains(t, []string{"status 502", "status 503", "status 504", "unanswered at the end"}, cause, "%s %d: %d times", r.API, r.Size, n)
		}
	}
	require.NotZero(t, answered)
	require.NotZero(t, s.Faults)
	require.NotZero(t, s.Left.Sending+s.Left.Waiting+s.Left.Listening)
	require.NotZero(t, s.Before.Goroutines)
	require.Len(t, s.Rests, 5)
	for i, r := range s.Rests {
		require.NotZero(t, r.RSS)
		require.NotZero(t, r.Bounded, "what the router says of its index and the rest")
		require.True(t, i == 0 || r.Requests >= s.Rests[i-1].Requests)
	}
	require.Equal(t, s.Rests[4].Requests, total(s.Runs))
	for _, want := range []string{"workers failed", "before:", "rest 5:", "verdict: "} {
		require.Contains(t, s.String(), want)
	}
}

func total(runs []*load.Result) (n uint64) {
	for _, r := range runs {
		n += r.Answered
	}
	return n
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
