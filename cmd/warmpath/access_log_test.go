package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/bench/trace"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// TestAccessLogIsATrace: the log of a cluster, read as a trace, finds in simulation exactly what was found live, where requests follow
// each other and a choice owes nothing to chance.
func TestAccessLogIsATrace(t *testing.T) {
	const scale = 200
	requests := conversationTurns()
	for _, policy := range []string{"kv", "round-robin"} {
		t.Run(policy, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "access.jsonl")
			router := router.Config{Listen: "127.0.0.1:0", Policy: config.Policy{Name: policy}, Logs: config.Logs{Access: file}, Log: slog.New(slog.DiscardHandler)}
			unhurried(&router)
			cl, err := newCluster(clusterSize{workers: 2}, sim.Config{TimeScale: scale, Log: router.Log}, router)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- cl.run(ctx) }()
			awaitCluster(t, cl, 2)
			prompt, hit := 0, 0
			for _, r := range requests {
				settle(t, cl)
				one, err := replay.Run(t.Context(), "http://"+cl.router.Addr(), []trace.Request{r}, replay.Config{API: replay.APIGenerate})
				require.NoError(t, err)
				require.Zero(t, one.Errors, one.FirstError)
				prompt, hit = prompt+one.PromptTokens, hit+one.HitTokens
			}
			cancel()
			require.NoError(t, <-done)

			f, err := os.Open(file)
			require.NoError(t, err)
			defer f.Close()
			logged, err := trace.Read(f, 0)
			require.NoError(t, err)
			require.Len(t, logged.Requests, len(requests))
			for i, got := range logged.Requests {
				want := requests[i]
				require.Equal(t, []int{want.Input, want.Output, 16}, []int{got.Input, got.Output, got.Block}, "request %d", i)
			}
			live := float64(hit) / float64(prompt)
			found, ok := policies.Found(logged.Requests)
			require.True(t, ok)
			require.InDelta(t, live, found, 1e-12, "the log says what the client was told")

			report, err := policies.Simulate(t.Context(), "log", policies.Recorded(logged.Requests),
				policies.Config{Workers: 2, Rate: 1.0 / scale}, []string{policy}, nil)
			require.NoError(t, err)
			require.InDelta(t, live, report.Results[0].Hits, 1e-12, "and the simulation finds the same")
		})
	}
}

// conversationTurns are four conversations of five turns each, taking turns in an order that two workers cannot share by accident, and
// each answer long enough that clocks of a millisecond keep them apart.
func conversationTurns() (out []trace.Request) {
	open := make([]trace.Request, 4)
	for turn := range 5 {
		for i := range open {
			r := &open[(i+turn)%len(open)]
			r.Input += 700 + 37*i
			for len(r.IDs)*512 < r.Input {
				r.IDs = append(r.IDs, uint64(1000*((i+turn)%len(open))+len(r.IDs)))
			}
			next := trace.Request{Input: r.Input, Output: 100, Block: 512, IDs: append([]uint64(nil), r.IDs...)}
			out = append(out, next)
		}
	}
	return out
}
