//go:build soak

package main

import (
	"cmp"
	"context"
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
)

// TestOverload offers what two workers can do, and three times as much, in an open loop, and counts the answers that end
// before their client gives up.
func TestOverload(t *testing.T) {
	const patience, lasts = 10 * time.Second, 60 * time.Second
	for _, kind := range []struct {
		name           string
		running        int
		prompt, output int
		capacity       float64 // requests a second, of both workers
	}{
		{"the batch is full", 16, 500, 150, 12.5},
		{"prefill is slow", 64, 4800, 8, 6.5},
	} {
		peak := 0
		for _, times := range []float64{1, 3} {
			ctx, stop := context.WithCancel(t.Context())
			log := slog.New(slog.DiscardHandler)
			cl, err := newCluster(clusterSize{workers: 2}, sim.Config{MaxRunning: kind.running, Log: log}, router.Config{Listen: "127.0.0.1:0", Log: log})
			require.NoError(t, err)
			done := make(chan error, 1)
			go func() { done <- cl.run(ctx) }()
			awaitCluster(t, cl, 2)
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
			rng := rand.New(rand.NewPCG(1, 2))
			var wg sync.WaitGroup
			var mu sync.Mutex
			var good, refused, late, all int
			var ttft, no []time.Duration
			began := time.Now()
			at := time.Duration(0)
			for at < lasts {
				at += time.Duration(rng.ExpFloat64() / (kind.capacity * times) * float64(time.Second))
				ids, counts := randomIDs(rng, kind.prompt), at > lasts/2
				time.Sleep(at - time.Since(began))
				wg.Go(func() {
					ctx, leave := context.WithTimeout(ctx, patience)
					defer leave()
					asked := time.Now()
					a := ask(ctx, client, "http://"+cl.router.Addr(), ids, kind.output)
					if !counts {
						return
					}
					mu.Lock()
					defer mu.Unlock()
					all++
					switch {
					case a.err == nil && a.status == http.StatusOK && ctx.Err() == nil:
						good++
						ttft = append(ttft, a.ttft)
					case a.status == http.StatusTooManyRequests:
						refused++
						no = append(no, time.Since(asked))
					default:
						late++
					}
				})
			}
			wg.Wait()
			mid := func(all []time.Duration, q float64) time.Duration {
				slices.SortFunc(all, func(a, b time.Duration) int { return cmp.Compare(a, b) })
				if len(all) == 0 {
					return 0
				}
				return all[int(q*float64(len(all)-1))].Round(time.Millisecond)
			}
			t.Logf("%-18s at %v x capacity: of %3d requests of the second half %3d answered in time (%.1f/s; first token median %v, p95 %v), %3d refused with 429 (after median %v, p95 %v), %3d in vain",
				kind.name, times, all, good, float64(good)/(lasts/2).Seconds(), mid(ttft, .5), mid(ttft, .95), refused, mid(no, .5), mid(no, .95), late)
			peak = max(peak, good)
			require.Greater(t, float64(good), 0.75*float64(peak), "the load of this machine is in it, too")
			client.CloseIdleConnections()
			stop()
			require.NoError(t, <-done)
		}
	}
}
