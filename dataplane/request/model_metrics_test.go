package request_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStreamsTellTheTimeBetweenTokens: tokens that come apart are gaps of the model that the worker
// serves, whatever the client calls it; the usage of a stream counts as generated.
func TestStreamsTellTheTimeBetweenTokens(t *testing.T) {
	w := newFakeWorker(t, info(1))
	next := make(chan struct{})
	w.On("/v1/chat/completions", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(rw, `data: {"choices":[{"delta":{"content":"x"}}]}`+"\n\n")
			_ = http.NewResponseController(rw).Flush()
			<-next
			<-time.After(2 * time.Millisecond) // the engine's next step
		}
		_, _ = io.WriteString(rw, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n")
	})
	h := start(t, []*fakeWorker{w})
	resp, err := h.Client.Post(h.Base+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"default","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	one := make([]byte, 4096)
	for range 3 {
		_, err := resp.Body.Read(one)
		require.NoError(t, err)
		next <- struct{}{}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	h.AwaitIdle()
	text := h.Metrics()
	assert.Contains(t, text, `warmpath_generation_tokens_total{model="tiny"} 3`)
	assert.Regexp(t, `warmpath_inter_token_latency_seconds_count\{model="tiny"\} 3\n`, text)
	assert.NotContains(t, text, `model="default"`)
}
