package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
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

// TestCrippledChoiceIsFound: a router that was started with round robin finds a better policy by its
// own requests, uses it, and says so; an operator takes it back.
func TestCrippledChoiceIsFound(t *testing.T) {
	t.Parallel()
	var said lines
	cfg := router.Config{
		Listen: "127.0.0.1:0", Version: version, Log: slog.New(slog.NewTextHandler(&said, nil)),
		Policy: config.Policy{Name: "round-robin", SelfCheck: selfcheck.On, CheckLimits: &selfcheck.Limits{
			Share: 0.5, Interval: 100 * time.Millisecond, MinRequests: 120, Window: 1500, Trial: time.Millisecond, MaxAge: 20 * time.Second,
		}},
	}
	unhurried(&cfg)
	r := runRouters(t, 1, 4, sim.Config{TimeScale: 4, CachePages: 6000, MaxRunning: 16}, cfg)
	url := "http://" + r.all[0].Addr()
	stop := chatter(t.Context(), t, url, 24, 3000, 300, 8, 300*time.Millisecond)
	defer stop()
	began := time.Now()
	last := ""
	awaitThat(t, func() bool {
		st := r.all[0].Status().SelfCheck
		if st.Last != nil && st.Last.At+st.Last.Note != last {
			last = st.Last.At + st.Last.Note
			t.Logf("%v %+v", time.Since(began), *st.Last)
		}
		return st.Policy != "round-robin" && !st.Trial
	}, func() string { return fmt.Sprintf("%+v", r.all[0].Status().SelfCheck) })
	t.Logf("%v %+v", time.Since(began), r.all[0].Status().SelfCheck)
	require.Equal(t, 1, said.count("self-check changes the policy"))
	require.Equal(t, 1, said.count("proved itself"))
}
