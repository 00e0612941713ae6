package request_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// saysWith answers with a header of its own too.
func saysWith(status int, body string) act {
	return func(_ *fakeLeg, rw http.ResponseWriter, _ *http.Request, _ *pairBody) {
		rw.Header().Set("Content-Type", "application/json")
		rw.Header().Set("Retry-After", "7")
		rw.Header().Set("X-Engine", "mine")
		rw.Header().Set("X-Warmpath-Worker", "mine")
		rw.WriteHeader(status)
		_, _ = io.WriteString(rw, body)
	}
}

// The error of all pairs reaches the client as a worker gave it, whichever half gave it, as that of
// whole workers does.
func TestErrorOfAllPairs(t *testing.T) {
	t.Parallel()
	const reply = `{"error":{"message":"CUDA error: mine","code":500}}`
	for _, status := range []int{400, 413, 422, 429, 500, 501, 503} {
		for _, failing := range []string{"prefill", "decode", "both"} {
			for _, pairs := range []int{1, 2} {
				t.Run(fmt.Sprint(status, " ", failing, " ", pairs), func(t *testing.T) {
					t.Parallel()
					p, d := newPair(t, pairs, pairs, 1)
					for i := range pairs {
						if failing != "decode" {
							p[i].does(saysWith(status, reply))
						}
						if failing != "prefill" {
							d[i].does(saysWith(status, reply))
						}
					}
					h := startPair(t, p, d)
					for _, stream := range []bool{false, true} {
						resp, got := h.post("/generate", pairRequest(stream))
						require.Equal(t, status, resp.StatusCode, got)
						assert.Equal(t, reply, got)
						assert.Equal(t, "7", resp.Header.Get("Retry-After"))
						assert.Equal(t, "mine", resp.Header.Get("X-Engine"))
						assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))
						assert.NotEqual(t, "mine", resp.Header.Get("X-Warmpath-Worker"))
					}
					noneRunning(t, h)
				})
			}
		}
	}
}

// An error inside a stream is an answer too, and that of a transfer is the cluster's own.
func TestErrorInStreamOfAllPairs(t *testing.T) {
	t.Parallel()
	const event = `data: {"error":{"message":"CUDA error: mine","code":%d}}` + "\n\ndata: [DONE]\n\n"
	for _, status := range []int{400, 500, 503} {
		for _, failing := range []string{"prefill", "decode"} {
			t.Run(fmt.Sprint(status, " ", failing), func(t *testing.T) {
				t.Parallel()
				p, d := newPair(t, 2, 2, 1)
				legs := p
				if failing == "decode" {
					legs = d
				}
				for _, l := range legs {
					l.does(says(http.StatusOK, "text/event-stream", fmt.Sprintf(event, status)))
				}
				h := startPair(t, p, d)
				resp, got := h.post("/generate", pairRequest(true))
				assert.Equal(t, http.StatusOK, resp.StatusCode)
				assert.Contains(t, got, "CUDA error: mine")
				assert.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
				for _, l := range legs {
					l.does(says(http.StatusInternalServerError, "application/json", `{"detail":"Decode transfer failed"}`))
				}
				resp, got = h.post("/generate", pairRequest(true))
				assert.Equal(t, http.StatusBadGateway, resp.StatusCode, got)
				noneRunning(t, h)
			})
		}
	}
}
