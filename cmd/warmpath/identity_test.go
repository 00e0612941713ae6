package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane"
	"github.com/warmpath/warmpath/dataplane/server"
)

// chatFor sends a short chat for a model and returns the status and the worker.
func chatFor(ctx context.Context, client *http.Client, base, model string, n int) (status int, worker string, err error) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"number %d"}],"max_tokens":2}`, model, n)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("X-Warmpath-Worker"), err
}

// modelsOf returns the names in GET /v1/models.
func modelsOf(t *testing.T, base string) (names []string) {
	t.Helper()
	resp, err := http.Get(base + "/v1/models")
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	for _, m := range answer.Data {
		names = append(names, m.ID)
	}
	return names
}

// postTo posts JSON and wants 200.
func postTo(t *testing.T, url, body string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
}

// TestNamesAfterNewWeights: workers that have loaded other weights name them by their path, and take the served name as before.
func TestNamesAfterNewWeights(t *testing.T) {
	cl, base := startCluster(t, 2, sim.Config{}, "round-robin")
	for _, w := range cl.sims {
		postTo(t, w.URL()+"/update_weights_from_disk", `{"model_path":"/checkpoints/2"}`)
	}
	awaitThat(t, func() bool { return slices.Contains(modelsOf(t, base), "/checkpoints/2") }, func() string { return "the new name is not known" })
	for _, model := range []string{"simulated", "/checkpoints/2"} {
		seen := map[string]bool{}
		for i := range 8 {
			status, worker, err := chatFor(t.Context(), http.DefaultClient, base, model, i)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, "a request for %s", model)
			seen[worker] = true
		}
		require.Len(t, seen, 2, "workers that take requests for %s", model)
	}
	// A router that begins after that knows both names, and one that has lost sight of a worker still does.
	status, _, err := chatFor(t.Context(), http.DefaultClient, base, "no such model", 1)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status)
}

// TestAnotherModelAtOneURL replaces a worker under traffic by a process that serves another model, so fast that no probe could
// see the port closed: probes come once an hour here.
func TestAnotherModelAtOneURL(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	cfg := dataplane.Config{Listen: "127.0.0.1:0", Policy: "round-robin", Log: log}
	unhurried(&cfg)
	cfg.ProbeInterval = time.Hour
	cl, base := startWith(t, clusterSize{workers: 3}, sim.Config{TimeScale: 50, Log: log}, cfg)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()

	var answered, failed atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for c := range 8 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				status, _, err := chatFor(context.WithoutCancel(ctx), client, base, "simulated", c*1_000_000+n)
				if err != nil || status != http.StatusOK {
					failed.Add(1)
					continue
				}
				answered.Add(1)
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		want := answered.Load() + n
		awaitThat(t, func() bool { return answered.Load() >= want }, func() string { return "requests are not answered" })
	}
	more(100)
	cl.sims[0].Faults().Replace("other")
	awaitThat(t, func() bool { return modelAt(cl, cl.sims[0].URL()) == "other" }, func() string { return "the other model is not known" })
	more(300)
	stop()
	clients.Wait()
	t.Logf("%d answers, %d failures, %d by a process of another model", answered.Load(), failed.Load(), cl.sims[0].Strangers())
	require.Zero(t, failed.Load(), "requests that failed")
	require.Less(t, cl.sims[0].Strangers(), 30, "requests that the other model got")

	status, worker, err := chatFor(t.Context(), client, base, "other", 1)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, cl.sims[0].URL(), worker)
}

func modelAt(cl *simulation, url string) string {
	all := cl.router.Status().Workers
	i := slices.IndexFunc(all, func(w server.WorkerStatus) bool { return w.URL == url && w.State == "ready" })
	if i < 0 {
		return ""
	}
	return all[i].Model
}
