package load_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy/load"
	"github.com/warmpath/warmpath/bench/proxy/mock"
	"github.com/warmpath/warmpath/dataplane/cluster/natstest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// workers are mock ones, for as long as the test takes. A single one has a port that strangers do not come to: a router of another test may still
// ask for a worker that had the port which the kernel gives.
func workers(t *testing.T, cfg mock.Config) *mock.Workers {
	t.Helper()
	cfg.Listen, cfg.Model = "127.0.0.1:0", mock.DefaultModel
	switch cfg.Workers {
	case 0:
		cfg.Workers = 2
	case 1:
		cfg.Listen = natstest.Address(t)
	}
	cfg.PageSize, cfg.CachePages = 16, 4096
	w, err := mock.New(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return w
}

// short is a run of the least time in which something happens.
func short(a load.API, targets ...string) load.Config {
	return load.Config{
		Targets: targets, API: a, Size: 600, Tokens: 5, Connections: 4, Warm: 20 * time.Millisecond, Time: 200 * time.Millisecond,
		Timeout: time.Minute, Seed: 3,
	}
}

// until runs cfg for longer and longer, with other prompts each time, until it measures enough: a busy machine may do nothing for a while.
func until(t *testing.T, cfg load.Config, enough func(*load.Result) bool) *load.Result {
	t.Helper()
	for {
		r, err := load.Run(t.Context(), cfg)
		require.NoError(t, err)
		if enough(r) || cfg.Time > time.Minute {
			return r
		}
		cfg.Time, cfg.Seed = cfg.Time*4, cfg.Seed+1000
	}
}

// open runs an open loop again where it gave requests up: a machine stood still for its grace of 10 s.
func open(t *testing.T, cfg load.Config) *load.Result {
	t.Helper()
	var r *load.Result
	for range 5 {
		var err error
		r, err = load.Run(t.Context(), cfg)
		require.NoError(t, err)
		if len(r.Errors) == 0 {
			break
		}
	}
	require.Empty(t, r.Errors)
	return r
}

func TestClosedLoop(t *testing.T) {
	w := workers(t, mock.Config{})
	seed := uint64(0)
	for _, a := range load.APIs() {
		for _, stream := range []bool{false, true} {
			cfg := short(a, w.Addrs()...)
			cfg.Stream = stream
			seed++
			cfg.Seed = seed
			var began, ended atomic.Int32
			cfg.Begin, cfg.End = func() { began.Add(1) }, func() { ended.Add(1) }
			runs := int32(0)
			r := until(t, cfg, func(r *load.Result) bool { runs++; return r.OK > 0 || len(r.Errors) > 0 })
			require.Empty(t, r.Errors, "%s stream=%t", a, stream)
			require.NotZero(t, r.OK, "%s stream=%t", a, stream)
			require.Equal(t, r.OK, r.Answered)
			require.Equal(t, r.OK, r.Latency.N)
			require.Equal(t, runs, began.Load())
			require.Equal(t, runs, ended.Load())
			require.LessOrEqual(t, r.First.P50, r.Latency.Max)
		}
	}
	s, ok := w.Stats(t.Context())
	require.True(t, ok)
	require.Zero(t, s.Bad)
	require.Zero(t, s.Cached, "prompts are unique: less than a page is shared")
}

// TestLongBodies: neither a prompt nor an answer fits into the sockets and the shared buffer.
func TestLongBodies(t *testing.T) {
	w := workers(t, mock.Config{})
	cfg := short(load.Text, w.Addrs()...)
	cfg.Size, cfg.Tokens, cfg.Connections, cfg.Timeout = 6<<20, 100_000, 1, 3*time.Minute
	r := until(t, cfg, func(r *load.Result) bool { return r.OK > 0 || len(r.Errors) > 0 })
	require.Empty(t, r.Errors)
	s, ok := w.Stats(t.Context())
	require.True(t, ok)
	require.Zero(t, s.Bad)
}

func TestOpenLoop(t *testing.T) {
	w := workers(t, mock.Config{})
	cfg := short(load.IDs, w.Addrs()...)
	cfg.Rate, cfg.Even, cfg.Connections = 500, true, 64
	r := open(t, cfg)
	// Due times do not depend on the machine: 0.2 s of 500/s.
	require.InDelta(t, 100, float64(r.OK), 1)
	require.Equal(t, r.OK, r.Latency.N)
}

func TestConversationsHitTheCache(t *testing.T) {
	w := workers(t, mock.Config{Workers: 1})
	for _, a := range load.APIs() {
		var before mock.Stats
		after, _ := w.Stats(t.Context())
		cfg := short(a, w.Addrs()...)
		cfg.Size, cfg.Turns, cfg.Conversations, cfg.Time = 8<<10, 8, 4, 500*time.Millisecond
		r := until(t, cfg, func(r *load.Result) bool { // until all conversations have had turns
			before = after
			after, _ = w.Stats(t.Context())
			return after.Requests-before.Requests >= 200 || len(r.Errors) > 0
		})
		require.Empty(t, r.Errors)
		share := float64(after.Cached-before.Cached) / float64(after.Prompt-before.Prompt)
		require.Greater(t, share, 0.6, "%s: cached share of %d prompts", a, after.Requests-before.Requests)
	}
}

// TestStallIsNotOmitted has a server that stalls once. An open loop counts the wait of all who were due meanwhile, though none of them
// had been sent.
func TestStallIsNotOmitted(t *testing.T) {
	const stall = 400 * time.Millisecond
	var n atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if n.Add(1) == 10 {
			time.Sleep(stall)
		}
		_, _ = io.WriteString(w, answerOf(5))
	}))
	defer s.Close()
	cfg := short(load.Text, s.Listener.Addr().String())
	cfg.Rate, cfg.Even, cfg.Connections, cfg.Warm, cfg.Time = 100, true, 1, 0, time.Second
	cfg.Begin = func() { n.Store(0) }
	r := open(t, cfg)
	// 40 of 100 were due during the stall, and waited for 0.2 s on average. A slow machine only adds to that.
	require.GreaterOrEqual(t, r.Latency.P90, 200e3, "a tenth waited for longer than half the stall")
	require.GreaterOrEqual(t, r.Latency.Max, 400e3)
	require.GreaterOrEqual(t, r.Late.P90, 150e3, "they were sent late")
}

// answerOf is what a good worker says to a prompt for n tokens.
func answerOf(n int) string { return `{"text":"` + strings.Repeat(mock.Word, n) + `"}` }

// TestWrongAnswersAreErrors has servers that do one thing wrong each.
func TestWrongAnswersAreErrors(t *testing.T) {
	stream := func(events int, end string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Repeat("data: {}\n\n", events)+end)
		}
	}
	tests := []struct {
		name   string
		stream bool
		serve  http.HandlerFunc
		want   string
	}{
		{"status", false, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) }, "status 503"},
		{"text", false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answerOf(4)) }, "text is missing"},
		{"JSON", false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, "not a JSON object"},
		{"events", true, stream(4, "data: [DONE]\n\n"), "events are missing"},
		{"end", true, stream(9, ""), "no end mark"},
		{"cut", false, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, answerOf(5))
		}, "closed before"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := httptest.NewServer(tt.serve)
			defer s.Close()
			cfg := short(load.Text, s.Listener.Addr().String())
			cfg.Stream = tt.stream
			r := until(t, cfg, func(r *load.Result) bool { return r.OK+r.Failures() > 0 })
			require.Zero(t, r.OK)
			require.NotZero(t, r.Failures())
			require.Len(t, r.Errors, 1)
			require.Contains(t, fmt.Sprint(r.Errors), tt.want)
		})
	}
}

func TestTimeout(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer s.Close()
	defer close(gone)
	cfg := short(load.Text, s.Listener.Addr().String())
	cfg.Timeout, cfg.Time = 10*time.Millisecond, time.Second
	r := until(t, cfg, func(r *load.Result) bool { return r.Errors["timeout"] > 0 })
	require.Zero(t, r.OK)
	require.NotZero(t, r.Errors["timeout"], "%v", r.Errors)
}

func TestNobodyThere(t *testing.T) {
	const addr = "127.0.0.1:1" // which no other process is given, as it might a port that was just closed
	_, err := load.Run(t.Context(), short(load.Chat, addr))
	require.ErrorIs(t, err, load.ErrConnect)
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := workers(t, mock.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cfg := short(load.Chat, w.Addrs()...)
	cfg.Time = time.Hour
	var once sync.Once
	cfg.Begin = func() { once.Do(cancel) }
	_, err := load.Run(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
}

// TestPacedStreams has events come at a pace; a slow machine only makes gaps longer.
func TestPacedStreams(t *testing.T) {
	const gap = 20 * time.Millisecond
	w := workers(t, mock.Config{Gap: gap, TTFT: gap})
	cfg := short(load.Chat, w.Addrs()...)
	cfg.Stream, cfg.Time = true, 500*time.Millisecond
	r := until(t, cfg, func(r *load.Result) bool { return r.OK > 0 && r.Gap.N > 0 || len(r.Errors) > 0 })
	require.Empty(t, r.Errors)
	require.GreaterOrEqual(t, r.Latency.Max, float64(5*gap.Microseconds())*0.98)
	require.NotZero(t, r.Gap.N)
}
