package request_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestStaleConnectionsAndIDs: a worker that loses a kept-alive connection may have the request from
// it. Until it notices, it refuses the id of that request, and then it aborts whatever has the id:
// the request is sent again with another one, and one with its client's own id on a new connection.
func TestStaleConnectionsAndIDs(t *testing.T) {
	t.Parallel()
	for path, answer := range map[string]string{
		"/generate":            `{"text":"a","meta_info":{"finish_reason":{"type":"length"},"prompt_tokens":1,"completion_tokens":1}}`,
		"/v1/completions":      `{"choices":[{"index":0,"text":"a","finish_reason":"length"}]}`,
		"/v1/chat/completions": `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"}]}`,
		"/v1/messages":         `{"type":"message","content":[{"type":"text","text":"a"}]}`,
		"/v1/responses":        `{"object":"response","status":"completed","output":[],"usage":{"output_tokens":1}}`,
	} {
		for _, own := range []string{"", `"rid":"mine-%d",`} {
			switch path {
			case "/v1/messages":
				own = "" // its body has none
			case "/v1/responses":
				own = strings.Replace(own, "rid", "request_id", 1)
			}
			t.Run(path+" "+own, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				used, lost := map[string]bool{}, 0 // guarded by mu, as the next
				var ids []string
				w := newFakeWorker(t, info(1))
				w.on(path, func(rw http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					var b struct {
						RID string `json:"rid"`
						ID  string `json:"request_id"`
					}
					assert.NoError(t, json.Unmarshal(body, &b))
					mu.Lock()
					defer mu.Unlock()
					ids = append(ids, b.RID+b.ID+r.Header.Get("X-Override-Rid"))
					again := used[r.RemoteAddr]
					used[r.RemoteAddr] = true
					if again {
						lost++
						panic(http.ErrAbortHandler)
					}
					rw.Header().Set("Content-Type", "application/json")
					fmt.Fprint(rw, answer)
				})
				h := start(t, []*fakeWorker{w})
				const requests = 4
				for i := range requests {
					body := `{`
					if own != "" {
						body += fmt.Sprintf(own, i)
					}
					body += `"model":"tiny","text":"x","prompt":"x","input":"x","messages":[{"role":"user","content":"x"}],"max_tokens":4}`
					resp, got := h.post(path, body)
					require.Equal(t, http.StatusOK, resp.StatusCode, got)
				}
				mu.Lock()
				defer mu.Unlock()
				if own == "" {
					assert.NotZero(t, lost, "no connection was used again")
				}
				seen := map[string]bool{}
				for _, id := range ids {
					assert.NotEmpty(t, id)
					assert.False(t, seen[id], "two requests with the id %s of %q", id, ids)
					seen[id] = true
				}
				noneBlamed(t, h)
			})
		}
	}
}
