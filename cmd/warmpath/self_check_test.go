package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/selfcheck"
)

// chatter has clients go through conversations, one after the other, until ctx ends: each prompt is
// the one before, its answer's length of other tokens and a question.
func chatter(ctx context.Context, t *testing.T, base string, clients, first, turn, turns int, think time.Duration) (stop func()) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 11))
			for ctx.Err() == nil {
				ids := randomIDs(rng, first)
				for range 1 + rng.IntN(2*turns) {
					a := ask(ctx, client, base, ids, 5+rng.IntN(20))
					if ctx.Err() != nil {
						return
					}
					if a.err != nil || a.status != http.StatusOK {
						t.Errorf("a turn failed: %+v", a)
						return
					}
					ids = slices.Concat(ids, randomIDs(rng, 1+rng.IntN(2*turn)))
					select {
					case <-time.After(time.Duration(rng.ExpFloat64() * float64(think))):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	return func() {
		cancel()
		wg.Wait()
		client.CloseIdleConnections()
	}
}

// TestSelfCheckIsShown: a router checks its choice on its own requests, shows it everywhere, and an
// operator's reload switches the checks off. Package selfcheck proves on a fake clock that a better
// policy is found: here the verdict is up to the machine.
func TestSelfCheckIsShown(t *testing.T) {
	t.Parallel()
	cfg := router.Config{
		Listen: "127.0.0.1:0", Version: version, Log: slog.New(slog.DiscardHandler),
		Policy: config.Policy{Name: "round-robin", SelfCheck: selfcheck.Advise, CheckLimits: &selfcheck.Limits{
			Share: 0.1, Interval: 50 * time.Millisecond, MinRequests: 80, Window: 200, MaxAge: patience,
		}},
	}
	unhurried(&cfg)
	r := runRouters(t, 1, 4, sim.Config{TimeScale: 4, CachePages: 6000, MaxRunning: 16}, cfg)
	router, url := r.all[0], "http://"+r.all[0].Addr()
	stop := chatter(t.Context(), t, url, 8, 3000, 300, 8, 300*time.Millisecond)
	defer stop()
	call := func(method, path, body string) (status int, answer string) {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		all, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(all)
	}
	awaitThat(t, func() bool {
		st := router.Status().SelfCheck
		return st.Checks > 0 && st.Last != nil && len(st.Last.Forecasts) > 1
	}, func() string {
		return fmt.Sprintf("%+v, last %+v", router.Status().SelfCheck, router.Status().SelfCheck.Last)
	})
	require.Equal(t, "round-robin", router.Status().Policy, "advice changes nothing")

	_, metrics := call(http.MethodGet, "/metrics", "")
	require.Contains(t, metrics, `warmpath_self_check_policy{policy="round-robin",state="configured"} 1`)
	require.Contains(t, metrics, `warmpath_self_check_changes_total{kind="changed"} 0`)
	require.Contains(t, metrics, `warmpath_self_check_ttft_seconds{policy="observed"}`)
	_, explained := call(http.MethodPost, "/explain", `{"input_ids":[1,2,3]}`)
	require.Contains(t, explained, `"policy":"round-robin"`)
	status, _ := call(http.MethodDelete, "/self-check", "")
	require.Equal(t, http.StatusBadRequest, status, "nothing to take back")
	status, _ = call(http.MethodGet, "/self-check", "")
	require.Equal(t, http.StatusOK, status)

	cfg.Policy.Name, cfg.Policy.SelfCheck = "lmetric", selfcheck.Off
	require.NoError(t, router.Reload(func() (config.Config, error) { return cfg, nil }))
	require.Equal(t, "lmetric", router.Status().Policy)
	require.Equal(t, selfcheck.Off, router.Status().SelfCheck.Mode)
	awaitThat(t, func() bool { return router.Status().SelfCheck.Requests == 0 }, func() string { return "requests are remembered" })
}

// TestLeaderChecksForAll: of two routers that choose as one, only the leader checks; the other one
// says so, and does once it leads.
func TestLeaderChecksForAll(t *testing.T) {
	t.Parallel()
	cfg := router.Config{
		Listen: "127.0.0.1:0", Version: version, Log: slog.New(slog.DiscardHandler),
		Policy: config.Policy{Name: "kv", SelfCheck: selfcheck.On, CheckLimits: &selfcheck.Limits{Interval: 20 * time.Millisecond}},
	}
	unhurried(&cfg)
	r, stop := launch(t, 2, 2, sim.Config{Log: cfg.Log}, cfg)
	waiting := func(i int) string { return r.all[i].Status().SelfCheck.Waiting }
	awaitThat(t, func() bool {
		leads, follows := 0, 0
		for i, router := range r.all {
			if st := router.Status().Replicas; st.Leader == st.ID && strings.Contains(waiting(i), "requests are too few") {
				leads++
			} else if waiting(i) == "router "+st.Leader+" leads, and checks for all" {
				follows++
			}
		}
		return leads == 1 && follows == 1
	}, func() string { return fmt.Sprintf("%q and %q", waiting(0), waiting(1)) })
	leader := 0
	if st := r.all[1].Status().Replicas; st.Leader == st.ID {
		leader = 1
	}
	stop[leader]()
	awaitThat(t, func() bool { return strings.Contains(waiting(1-leader), "requests are too few") }, func() string { return waiting(1 - leader) })
}

// BenchmarkRequestsDuringChecks measures the time to the first token of requests while the router
// simulates without a pause between two checks, and without checks:
//
//	go test ./cmd/warmpath -run - -bench RequestsDuringChecks -benchtime 4000x -cpu 1,2
func BenchmarkRequestsDuringChecks(b *testing.B) {
	for _, mode := range []string{selfcheck.Off, selfcheck.Advise, selfcheck.Off, selfcheck.Advise} {
		b.Run(mode, func(b *testing.B) {
			log := slog.New(slog.DiscardHandler)
			cfg := router.Config{Listen: "127.0.0.1:0", Version: version, Log: log, Policy: config.Policy{Name: "kv", SelfCheck: mode, CheckLimits: &selfcheck.Limits{
				Interval: time.Millisecond, MinRequests: 100,
			}}}
			unhurried(&cfg)
			cl, err := newCluster(clusterSize{workers: 4}, sim.Config{TimeScale: 20, Log: log}, cfg)
			require.NoError(b, err)
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan error, 1)
			go func() { done <- cl.run(ctx) }()
			defer func() {
				stop()
				require.NoError(b, <-done)
			}()
			for {
				if st := cl.router.Status(); slices.IndexFunc(st.Workers, func(w admin.WorkerStatus) bool { return w.State != "ready" }) < 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
			defer client.CloseIdleConnections()
			url := "http://" + cl.router.Addr()
			send := func(n int) []time.Duration {
				all := make([]time.Duration, n)
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), 5))
						a := ask(b.Context(), client, url, randomIDs(rng, 1000+rng.IntN(1000)), 8)
						all[i] = a.ttft
						if a.err != nil {
							b.Error(a.err)
						}
					})
					time.Sleep(5 * time.Millisecond)
				}
				wg.Wait()
				slices.Sort(all)
				return all
			}
			send(400)
			before := cl.router.Status().SelfCheck.CPUSeconds
			b.ResetTimer()
			began := time.Now()
			all := send(b.N)
			took := time.Since(began).Seconds()
			st := cl.router.Status().SelfCheck
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
			b.ReportMetric(100*(st.CPUSeconds-before)/took, "%core")
			b.ReportMetric(float64(st.Checks), "checks")
		})
	}
}
