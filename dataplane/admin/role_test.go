package admin_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

// byURL returns the workers of /status.
func (h *harness) byURL() map[string]admin.WorkerStatus {
	all := map[string]admin.WorkerStatus{}
	for _, w := range h.Admin.Status().Workers {
		all[w.URL] = w
	}
	return all
}

func TestRolesAreShown(t *testing.T) {
	p, d := newPair(t, 1, 1)
	plain := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{p[0], d[0], plain})
	workers := h.byURL()
	assert.Equal(t, []string{"prefill", "decode", "regular"}, []string{workers[p[0].URL].Role, workers[d[0].URL].Role, workers[plain.URL].Role})
	assert.Regexp(t, `^127\.0\.0\.1:\d+$`, workers[p[0].URL].Bootstrap)
	assert.Empty(t, workers[d[0].URL].Bootstrap+workers[plain.URL].Bootstrap)
	metrics := h.Metrics()
	assert.Contains(t, metrics, `warmpath_worker_up{role="prefill",state="ready",worker="`+p[0].URL+`"} 1`)
}

// TestBreakerIsShown: and a worker with an open breaker gets nothing while another one is
// there.
func TestBreakerIsShown(t *testing.T) {
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	for _, w := range []*fakeWorker{a, b} {
		w.Answers("/generate", `{"text":"x","meta_info":{"prompt_tokens":9,"cached_tokens":0}}`)
	}
	h := start(t, []*fakeWorker{a, b}, withPolicy("round-robin"))
	require.Equal(t, admin.BreakerStatus{State: "closed"}, h.byURL()[a.URL].Breaker)
	bad, err := h.Registry.Get(a.URL)
	require.NoError(t, err)
	for range 3 {
		bad.Fault(time.Now().Add(29 * time.Second)) // it stays open for 30 s, the longest time, however slow this machine is
	}
	require.Equal(t, admin.BreakerStatus{State: "open", Faults: 3, Opened: 1}, h.byURL()[a.URL].Breaker)
	for range 4 {
		resp, _ := h.Post("/generate", idsBody)
		require.Equal(t, b.URL, resp.Header.Get("X-Warmpath-Worker"))
	}
	metrics := h.Metrics()
	assert.Contains(t, metrics, `warmpath_worker_breaker{state="open",worker="`+a.URL+`"} 1`)
	assert.Contains(t, metrics, `warmpath_worker_breaker_opened_total{worker="`+a.URL+`"} 1`)
	assert.NotRegexp(t, `warmpath_worker_breaker.*`+b.URL, metrics)
	e, _ := h.explain("", idsBody)
	assert.Equal(t, "failed too often, and others did not", e.Ranks[indexOf(e, a.URL)].Excluded)

	require.NoError(t, h.Registry.Remove(b.URL))
	resp, _ := h.Post("/generate", idsBody)
	require.Equal(t, a.URL, resp.Header.Get("X-Warmpath-Worker"), "nobody else is left")
	bad.Succeeded(time.Now().Add(2 * time.Hour)) // what was sent since it opened
	require.Equal(t, "closed", h.byURL()[a.URL].Breaker.State, "and it answered")
}

func TestExplainPair(t *testing.T) {
	p, d := newPair(t, 2, 2)
	h := start(t, append(p, d...))
	e, status := h.explain("?seed=3", idsBody)
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, e.Error)
	require.NotNil(t, e.Pair)
	require.True(t, e.Pair.Chosen)
	require.Equal(t, e.Winner, e.Pair.Prefill)
	require.NotEmpty(t, e.Pair.Why)
	require.Positive(t, e.Pair.TTFT)
	require.Len(t, e.Ranks, 2, "prefill ranks")
	for _, r := range e.Ranks {
		require.Equal(t, "prefill", r.Role)
		require.NotNil(t, r.Cost.Score)
	}
	require.Len(t, e.Pair.Decodes, 2)
	winners := 0
	for _, r := range e.Pair.Decodes {
		require.Equal(t, "ready", r.State)
		require.Positive(t, r.Cost.Transfer)
		require.InDelta(t, r.Cost.Transfer+r.Cost.Room+r.Cost.Step, r.Cost.Total, 1e-12)
		if r.Winner {
			winners++
			require.Equal(t, e.Pair.Decode, r.ID)
		}
	}
	require.Equal(t, 1, winners)
	again, _ := h.explain("?seed=3", idsBody)
	require.Equal(t, e.Pair.Decode, again.Pair.Decode)
}

// TestMissingRole: the error names the missing half of a pair.
func TestMissingRole(t *testing.T) {
	for _, role := range []string{"prefill", "decode"} {
		p, d := newPair(t, 1, 1)
		if role == "prefill" {
			p = nil
		} else {
			d = nil
		}
		h := start(t, append(p, d...))
		resp, body := h.Post("/generate", idsBody)
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		assert.Contains(t, body, "No "+role+" worker is ready")
		e, _ := h.explain("", idsBody)
		assert.Contains(t, e.Error, "no "+role+" worker is")
		assert.Nil(t, e.Pair)
	}
}

// TestAddingPairs: POST /workers takes a worker's role and bootstrap server, where it does not
// report them or is reached by another name.
func TestAddingPairs(t *testing.T) {
	p, d := newPair(t, 1, 1)
	h := start(t, nil)
	boot := newFakeWorker(t, "")
	boot.On("/route", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "{}") })
	port := requesttest.Port(boot.URL)
	add := func(body string) int {
		resp, _ := h.Do(http.MethodPost, h.Operator+"/workers", body)
		return resp.StatusCode
	}
	for _, bad := range []string{`"bootstrap_port":0`, `"bootstrap_port":65536`, `"bootstrap_port":"8998"`, `"role":"both"`} {
		assert.Equal(t, http.StatusBadRequest, add(`{"url":"`+p[0].URL+`",`+bad+`}`), bad)
	}
	require.Equal(t, http.StatusOK, add(`{"url":"`+p[0].URL+`","role":"prefill","bootstrap_host":"localhost","bootstrap_port":`+port+`}`))
	require.Equal(t, http.StatusOK, add(`{"url":"`+d[0].URL+`","role":"decode"}`))
	h.AwaitReady(2)
	assert.Equal(t, "localhost:"+port, h.byURL()[p[0].URL].Bootstrap)
	resp, _ := h.Post("/generate", idsBody)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, d[0].LastBody(), `"bootstrap_host":"localhost"`)
}
