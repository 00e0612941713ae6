package request_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

const answerWithUsage = `{"choices":[{"text":"","message":{"content":""}}],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":60}}}`

func indexOf(e admin.Explained, id string) int {
	return slices.IndexFunc(e.Ranks, func(r admin.ExplainedRank) bool { return r.ID == id })
}

// explain returns the choice for a body.
func (h *harness) explain(body string) (e admin.Explained) {
	h.t.Helper()
	_, got := h.Do(http.MethodPost, h.Operator+"/explain", body)
	require.NoError(h.t, json.Unmarshal([]byte(got), &e), got)
	return e
}

// GPU facts move traffic at once and appear in /status, /metrics and /explain; the worker is
// used again when they end.
func TestGPUHealthMovesTraffic(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	for _, w := range []*fakeWorker{a, b} {
		w.Answers("/v1/completions", answerWithUsage)
	}
	h := start(t, []*fakeWorker{a, b})
	body := `{"model":"tiny","prompt":"` + strings.Repeat("words ", 100) + `"}`
	served := func() string {
		resp, _ := h.Post("/v1/completions", body)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		h.AwaitIdle()
		return resp.Header.Get("X-Warmpath-Worker")
	}
	for _, w := range h.Admin.Status().Workers {
		require.Equal(t, admin.GPUHealthStatus{State: "unknown", Weight: 1}, *w.GPUs, "this machine has no sidecar")
	}
	_, text := h.Do(http.MethodGet, h.Operator+"/status", "")
	require.Equal(t, 2, strings.Count(text, `"gpus":{"state":"unknown","weight":1}`), text)
	require.NotContains(t, text+h.Metrics(), `"healthy"} 1`)
	require.NotContains(t, h.Metrics(), "warmpath_worker_health")
	warm := a
	if served() == b.URL {
		warm = b
	}
	require.Equal(t, warm.URL, served(), "its cache holds it")
	h.Worker(warm).SetHealth(worker.Health{State: worker.GPUDead, Reasons: []string{"XID 79: GPU has fallen off the bus"}})
	require.NotEqual(t, warm.URL, served())

	e := h.explain(body)
	r := e.Ranks[indexOf(e, warm.URL)]
	require.Contains(t, r.Excluded, "has dead GPUs (XID 79")
	require.Equal(t, "dead", r.GPUs.State)
	for _, w := range h.Admin.Status().Workers {
		require.Equal(t, w.URL != warm.URL, w.GPUs.State == "unknown")
	}
	got := h.Metrics()
	for _, line := range []string{
		`warmpath_worker_health{state="dead",worker="` + warm.URL + `"} 1`, `warmpath_health_excluded_total{reason="dead"} 1`,
		`warmpath_health_excluded_total{reason="no_tp"} 0`, `warmpath_health_overruled_total 0`,
	} {
		require.Contains(t, got, line+"\n")
	}
	require.NotContains(t, got, `state="healthy"`)

	h.Worker(warm).SetHealth(worker.Health{State: worker.GPUDegraded, Weight: 0.5, Reasons: []string{"clocks at 50 %"}})
	e = h.explain(body)
	r = e.Ranks[indexOf(e, warm.URL)]
	require.InDelta(t, 0.5, r.Weight, 1e-9)
	require.Positive(t, r.Cost.Health)
	require.InDelta(t, r.Cost.TTFT+r.Cost.Others(), r.Cost.Total, 1e-9)
	require.Equal(t, []string{"clocks at 50 %"}, r.GPUs.Reasons)
	require.Contains(t, h.Metrics(), `warmpath_worker_health_weight{worker="`+warm.URL+`"} 0.5`)

	for _, f := range []*fakeWorker{a, b} {
		h.Worker(f).SetHealth(worker.Health{State: worker.GPUDraining})
	}
	require.NotEmpty(t, served(), "facts alone do not stop a cluster that answers")
	e = h.explain(body)
	require.Contains(t, e.Overruled, "the least bad are used (draining)")
	require.Contains(t, h.Metrics(), "warmpath_health_overruled_total 1\n")
}

// TestGPUDeathMovesWaitingRequests: a request that waits at a worker whose GPU dies is answered
// by another one.
func TestGPUDeathMovesWaitingRequests(t *testing.T) {
	t.Parallel()
	dead, alive := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	alive.Answers("/v1/completions", answerWithUsage)
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	dead.On("/v1/completions", func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(arrived) })
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(release) })
	h := start(t, []*fakeWorker{dead, alive})
	h.Drain(alive, true)
	result := make(chan string, 1)
	go func() {
		resp, _, err := h.Try(http.MethodPost, h.Base+"/v1/completions", `{"model":"tiny","prompt":"Once"}`)
		if err != nil {
			result <- err.Error()
			return
		}
		result <- resp.Status + " " + resp.Header.Get("X-Warmpath-Worker")
	}()
	select {
	case <-arrived:
	case got := <-result:
		t.Fatalf("answered by a worker that drains: %s", got)
	}
	h.Drain(alive, false)
	began := time.Now()
	h.Worker(dead).SetHealth(worker.Health{State: worker.GPUDead, Reasons: []string{"the GPU is lost"}})
	select {
	case got := <-result:
		require.Equal(t, "200 OK "+alive.URL, got)
		t.Logf("answered elsewhere after %v", time.Since(began))
	case <-time.After(patience):
		t.Fatal("the request stayed at the worker whose GPU is dead")
	}
}
