package proxy_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/proxy"
	"github.com/warmpath/warmpath/bench/proxy/load"
	"github.com/warmpath/warmpath/bench/proxy/mock"
	"github.com/warmpath/warmpath/dataplane/fleet"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

const patience = 3 * time.Minute

// start runs mock workers and a router in this process until the test ends.
func start(t *testing.T, cfg mock.Config) (workers *mock.Workers, rt *router.Router) {
	t.Helper()
	cfg.Listen, cfg.Workers, cfg.Model, cfg.PageSize, cfg.CachePages = "127.0.0.1:0", 2, mock.DefaultModel, 16, 4096
	workers, err := mock.New(cfg)
	require.NoError(t, err)
	rt, err = router.New(router.Config{
		Listen: "127.0.0.1:0", Policy: config.Policy{Name: "kv"}, Log: slog.New(slog.DiscardHandler), Sources: fleet.SourceConfig{Workers: urls(workers.Addrs())},
	})
	require.NoError(t, err)
	run(t, workers.Run)
	run(t, rt.Run)
	deadline := time.Now().Add(patience)
	for ready := 0; ready < 2; {
		require.True(t, time.Now().Before(deadline), "the router does not find its workers")
		ready = 0
		for _, w := range rt.Status().Workers {
			if w.State == "ready" && (!cfg.Events || w.Overlap == "exact") {
				ready++
			}
		}
		time.Sleep(time.Millisecond)
	}
	return workers, rt
}

func urls(addrs []string) (all []string) {
	for _, a := range addrs {
		all = append(all, "http://"+a)
	}
	return all
}

// run runs f until the test ends, the last one first.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

// TestThroughRouter sends every API through the router, with events and without: all is answered well, and the router's picture of the
// caches is true.
func TestThroughRouter(t *testing.T) {
	for _, events := range []bool{true, false} {
		workers, router := start(t, mock.Config{Events: events, Tokenize: events})
		for _, a := range load.APIs() {
			for _, stream := range []bool{false, true} {
				cfg := load.Config{
					Targets: []string{router.Addr()}, API: a, Size: 4000, Turns: 4, Conversations: 8, Tokens: 6, Stream: stream,
					Connections: 4, Time: 150 * time.Millisecond, Timeout: patience, Seed: 1,
				}
				m, err := proxy.Measure(t.Context(), cfg, os.Getpid())
				for ; err == nil && (m.Answered == 0 || m.CPU == 0) && cfg.Time < patience; cfg.Time *= 4 { // a machine that does much else
					m, err = proxy.Measure(t.Context(), cfg, os.Getpid())
				}
				require.NoError(t, err)
				require.NoError(t, m.Err(), "%s stream=%t events=%t", a, stream, events)
				require.NotZero(t, m.Answered)
				require.Positive(t, m.CPU)
				require.Positive(t, m.Router.Peak)
				require.Contains(t, m.String(), string(a))
			}
		}
		s, ok := workers.Stats(t.Context())
		require.True(t, ok)
		require.Zero(t, s.Bad)
		require.NotZero(t, s.Cached, "conversations come back to where they were")
		if events {
			require.Eventually(t, func() bool { return router.Status().Index.Blocks != 0 }, patience, time.Millisecond, "events were applied")
		} else {
			require.Zero(t, router.Status().Index.Blocks)
		}
	}
}

func TestFailuresAreErrors(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) }))
	defer s.Close()
	cfg := load.Config{
		Targets: []string{s.Listener.Addr().String()}, API: load.Chat, Size: 300, Tokens: 1, Connections: 1, Time: 50 * time.Millisecond, Timeout: patience,
	}
	var failed error
	for ; failed == nil && cfg.Time < patience; cfg.Time *= 4 { // a machine that does much else may do nothing for so long
		m, err := proxy.Measure(t.Context(), cfg, 0)
		require.NoError(t, err)
		failed = m.Err()
	}
	require.ErrorIs(t, failed, proxy.ErrFailed)
	_, err := proxy.Measure(t.Context(), cfg, 1<<30)
	require.Error(t, err, "no such process")
}

func TestUse(t *testing.T) {
	before, err := proxy.Use(os.Getpid())
	require.NoError(t, err)
	sum := uint64(0)
	for range 20_000_000 {
		sum += rand.Uint64()
	}
	require.NotZero(t, sum)
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	after, err := proxy.Use(os.Getpid())
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.NoError(t, err)
	require.Greater(t, after.CPU, before.CPU)
	require.Equal(t, before.Processes+1, after.Processes, "children count")
	require.Greater(t, after.RSS, int64(1<<20))
	require.GreaterOrEqual(t, after.Peak, after.RSS/2)
	_, err = proxy.Use(1 << 30)
	require.Error(t, err)
}
