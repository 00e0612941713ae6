package request_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// readiness is the body of GET /ready.
type readiness struct {
	Ready  bool              `json:"ready"`
	Models []string          `json:"models"`
	Lacks  map[string]string `json:"lacks"`
}

func (h *harness) ready() (int, readiness) {
	h.t.Helper()
	resp, body, err := h.do(http.MethodGet, h.base+"/ready", "")
	require.NoError(h.t, err)
	var r readiness
	require.NoError(h.t, json.Unmarshal([]byte(body), &r))
	require.Equal(h.t, resp.StatusCode == http.StatusOK, r.Ready)
	return resp.StatusCode, r
}

// TestReadyIsWhetherARequestIsTaken: half of a pair takes none, whichever half it is, and a whole worker does.
func TestReadyIsWhetherARequestIsTaken(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	whole := newFakeWorker(t, info(1))
	whole.answers("/generate", idsReply)
	h := start(t, []*fakeWorker{p[0].fakeWorker, d[0].fakeWorker, whole})
	prefill, decode, alone := h.at(p[0].url), h.at(d[0].url), h.at(whole.url)
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
			prefill.Drain(tt.prefill)
			decode.Drain(tt.decode)
			alone.Drain(tt.alone)
			status, r := h.ready()
			answer, _ := h.post("/generate", idsBody)
			require.Equal(t, answer.StatusCode, status, "the answer to a request at the same time")
			if tt.lacks == "" {
				require.Equal(t, []string{"tiny"}, r.Models)
				require.Empty(t, r.Lacks)
			} else {
				require.Equal(t, map[string]string{"tiny": tt.lacks}, r.Lacks)
			}
			models := h.admin.Status().Models
			require.Len(t, models, 1)
			require.Equal(t, tt.lacks, models[0].Lacks)
			health, _, err := h.do(http.MethodGet, h.base+"/health", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, health.StatusCode, "liveness")
		})
	}
}

// TestReadyForOneModelOfTwo: the router is ready, and says which model is not.
func TestReadyForOneModelOfTwo(t *testing.T) {
	one, two := newFakeWorker(t, info(1)), newFakeWorker(t, `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	two.answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	h := start(t, []*fakeWorker{one, two})
	h.at(two.url).Drain(true)
	status, r := h.ready()
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []string{"tiny"}, r.Models)
	require.Equal(t, map[string]string{"dear": "no worker is ready"}, r.Lacks)
}

func (h *harness) at(url string) *worker.Worker {
	h.t.Helper()
	w, err := h.registry.Get(url)
	require.NoError(h.t, err)
	return w
}

// TestNotFoundHasTheWorkerRecognized: a server that refuses models that it has not tells by a 404 that it is another one. No probe's
// connection ends here, and nobody asks for models.
func TestNotFoundHasTheWorkerRecognized(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withWorkers(func(c *worker.Config) { c.LoadEvery = -1 }))
	w.answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	w.answers("/server_info", `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	w.on("/v1/chat/completions", http.NotFound)
	resp, _ := h.post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Eventually(t, func() bool { return h.at(w.url).Info().Model() == "dear" }, patience, tick)
}
