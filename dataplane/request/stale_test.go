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
				w.On(path, func(rw http.ResponseWriter, r *http.Request) {
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
					resp, got := h.Post(path, body)
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

// closesIdle has a leg close each connection that it has answered on once: the router learns of it
// when its next request is on the way.
func closesIdle(l *fakeLeg, then act) (closed func() int) {
	var mu sync.Mutex
	used, n := map[string]bool{}, 0 // guarded by mu
	l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
		mu.Lock()
		again := used[r.RemoteAddr]
		used[r.RemoteAddr] = true
		if again {
			n++
		}
		mu.Unlock()
		if again {
			dies(l, rw, r, b)
		}
		then(l, rw, r, b)
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// A connection that a worker has closed while it was idle is no failure of either leg: the request
// is sent again on new ones, in new rooms, to the same pair.
func TestPairStaleConnections(t *testing.T) {
	t.Parallel()
	for _, legs := range []string{"prefill", "decode", "both"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", legs, stream), func(t *testing.T) {
				t.Parallel()
				p, d := newPair(t, 1, 1, 1)
				closed := func() int { return 0 }
				if legs != "decode" {
					closed = closesIdle(p[0], meets)
				}
				if legs != "prefill" {
					closed = closesIdle(d[0], meets)
				}
				h := startPair(t, p, d)
				// A prefill leg that is a moment behind its partner's answer is stopped, and leaves no
				// connection: on a busy machine that may be several in a row.
				const requests, most = 6, 1000
				for n := 0; n < requests || n < most && closed() == 0; n++ {
					resp, got := h.Post("/generate", pairRequest(stream))
					require.Equal(t, http.StatusOK, resp.StatusCode, got)
					require.Equal(t, pairReply(stream), got)
				}
				assert.NotZero(t, closed(), "no connection was used again")
				noneBlamed(t, h)
				noneRunning(t, h)
			})
		}
	}
}

// SGLang refuses an id that it still has, and the leg that was reached keeps the client's own until
// it is aborted: such a request takes new connections from the beginning.
func TestPairStaleConnectionsAndOwnIDs(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	stale := []func() int{closesIdle(p[0], meets), closesIdle(d[0], meets)}
	h := startPair(t, p, d)
	for i := range 3 {
		resp, got := h.Post("/generate", fmt.Sprintf(`{"rid":"%032d","text":"x"}`, i))
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
	}
	for _, closed := range stale {
		assert.Zero(t, closed(), "requests on connections that may be stale")
	}
	noneBlamed(t, h)
	noneRunning(t, h)
}

// A worker that ends the new connection too has failed.
func TestPairStaleConnectionToADeadLeg(t *testing.T) {
	t.Parallel()
	for _, leg := range []string{"prefill", "decode"} {
		t.Run(leg, func(t *testing.T) {
			t.Parallel()
			p, d := newPair(t, 1, 1, 1)
			bad := p[0]
			if leg == "decode" {
				bad = d[0]
			}
			h := startPair(t, p, d)
			resp, got := h.Post("/generate", pairRequest(true))
			require.Equal(t, http.StatusOK, resp.StatusCode, got)
			bad.does(dies)
			resp, got = h.Post("/generate", pairRequest(true))
			assert.Equal(t, http.StatusBadGateway, resp.StatusCode, got)
			for _, w := range h.Registry.Snapshot().Workers {
				if w.URL == bad.URL {
					assert.NotZero(t, w.Breaker.Faults())
				} else {
					assert.Zero(t, w.Breaker.Faults())
				}
			}
			noneRunning(t, h)
		})
	}
}

// noneBlamed requires that no worker was held responsible for a failure.
func noneBlamed(t *testing.T, h *harness) {
	t.Helper()
	for _, w := range h.Registry.Snapshot().Workers {
		assert.Zero(t, w.Breaker.Faults(), w.URL)
		assert.Zero(t, w.Breaker.Opened(), w.URL)
		for _, r := range w.Ranks() {
			assert.Zero(t, r.Count.Errors.Load(), w.URL)
		}
	}
}
