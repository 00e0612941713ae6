package admin_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// readiness is the body of GET /ready.
type readiness struct {
	Ready  bool              `json:"ready"`
	Models []string          `json:"models"`
	Lacks  map[string]string `json:"lacks"`
}

func (h *harness) ready() (int, readiness) {
	h.t.Helper()
	resp, body := h.Do(http.MethodGet, h.Base+"/ready", "")
	var r readiness
	require.NoError(h.t, json.Unmarshal([]byte(body), &r))
	require.Equal(h.t, resp.StatusCode == http.StatusOK, r.Ready)
	return resp.StatusCode, r
}

// TestReadyMatchesRequests: half of a pair serves no request; a pair and a regular worker
// do.
func TestReadyMatchesRequests(t *testing.T) {
	p, d := newPair(t, 1, 1)
	whole := newFakeWorker(t, info(1))
	whole.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{p[0], d[0], whole})
	tests := []struct {
		name                   string
		prefill, decode, alone bool // drained
		lacks                  string
	}{
		{name: "all"},
		{name: "a pair", alone: true},
		{name: "a whole worker", prefill: true, decode: true},
		{name: "a whole worker and half a pair", prefill: true},
		{name: "no prefill worker", prefill: true, alone: true, lacks: "no prefill worker is ready"},
		{name: "no decode worker", decode: true, alone: true, lacks: "no decode worker is ready"},
		{name: "nobody", prefill: true, decode: true, alone: true, lacks: "no worker is ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h.Drain(p[0], tt.prefill)
			h.Drain(d[0], tt.decode)
			h.Drain(whole, tt.alone)
			status, r := h.ready()
			answer, _ := h.Post("/generate", idsBody)
			require.Equal(t, answer.StatusCode, status, "the answer to a request at the same time")
			if tt.lacks == "" {
				require.Equal(t, []string{"tiny"}, r.Models)
				require.Empty(t, r.Lacks)
			} else {
				require.Equal(t, map[string]string{"tiny": tt.lacks}, r.Lacks)
			}
			models := h.Admin.Status().Models
			require.Len(t, models, 1)
			require.Equal(t, tt.lacks, models[0].Lacks)
			for _, base := range []string{h.Base, h.Operator} {
				for _, path := range []string{"/health", "/healthz", "/liveness", "/ping"} {
					health, _ := h.Do(http.MethodGet, base+path, "")
					require.Equal(t, http.StatusOK, health.StatusCode, base+path)
				}
				for _, path := range []string{"/ready", "/readyz", "/readiness"} {
					ready, _ := h.Do(http.MethodGet, base+path, "")
					require.Equal(t, status, ready.StatusCode, base+path)
				}
			}
		})
	}
}

// TestReadyForOneModelOfTwo: the router is ready, and names the model that is not.
func TestReadyForOneModelOfTwo(t *testing.T) {
	one, two := newFakeWorker(t, info(1)), newFakeWorker(t, `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	two.Answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	h := start(t, []*fakeWorker{one, two})
	h.Drain(two, true)
	status, r := h.ready()
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []string{"tiny"}, r.Models)
	require.Equal(t, map[string]string{"dear": "no worker is ready"}, r.Lacks)
}
