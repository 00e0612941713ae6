package request_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func (h *harness) at(url string) *worker.Worker {
	h.t.Helper()
	w, err := h.registry.Get(url)
	require.NoError(h.t, err)
	return w
}

// TestNotFoundRechecksTheWorker: a 404 shows that the server at the worker's URL has another model by
// now. No probe's connection ends, and no client lists models, that would show it sooner.
func TestNotFoundRechecksTheWorker(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withWorkers(func(c *worker.Config) { c.LoadEvery = -1 }))
	w.answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	w.answers("/server_info", `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	w.on("/v1/chat/completions", http.NotFound)
	resp, _ := h.post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Eventually(t, func() bool { return h.at(w.url).Info().Model() == "dear" }, patience, tick)
}
