package request_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessionWorker keeps sessions as SGLang 0.5.23 does.
type sessionWorker struct {
	*fakeWorker
	mu    sync.Mutex
	open  map[string]bool
	ranks map[string][]string // of the requests of a session
	byID  map[string]bool     // of all requests
}

const openBody = `{"capacity_of_str_len":1000,"http_worker_ipc":"ipc:///tmp/x","priority":1`

func newSessionWorker(t *testing.T, info string) *sessionWorker {
	t.Helper()
	w := &sessionWorker{fakeWorker: newFakeWorker(t, info), open: map[string]bool{}, ranks: map[string][]string{}, byID: map[string]bool{}}
	refuse := func(rw http.ResponseWriter, message string) {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(rw, `{"error":{"message":%q}}`, message)
	}
	type body struct {
		ID     string                   `json:"session_id"`
		IPC    *string                  `json:"http_worker_ipc"`
		RID    string                   `json:"rid"`
		Rank   json.RawMessage          `json:"routed_dp_rank"`
		Params struct{ ID, RID string } `json:"session_params"`
	}
	handle := func(path string, f func(rw http.ResponseWriter, b body)) {
		w.On(path, func(rw http.ResponseWriter, r *http.Request) {
			var b body
			assert.NoError(t, json.NewDecoder(r.Body).Decode(&b))
			w.mu.Lock()
			defer w.mu.Unlock()
			rw.Header().Set("Content-Type", "application/json")
			f(rw, b)
		})
	}
	handle("/open_session", func(rw http.ResponseWriter, b body) {
		assert.Nil(t, b.IPC)
		if w.open[b.ID] {
			refuse(rw, "Failed to open the session. Check if a session with the same id is still open.")
			return
		}
		w.open[b.ID] = true
		_, _ = fmt.Fprintf(rw, "%q", b.ID)
	})
	handle("/close_session", func(_ http.ResponseWriter, b body) { delete(w.open, b.ID) })
	handle("/generate", func(rw http.ResponseWriter, b body) {
		id := b.Params.ID
		if id != "" && (!w.open[id] || b.Params.RID != "" && !w.byID[b.Params.RID]) {
			refuse(rw, "Invalid request: session id "+id+" does not exist")
			return
		}
		w.byID[b.RID] = true
		w.ranks[id] = append(w.ranks[id], string(b.Rank))
		_, _ = fmt.Fprintf(rw, `{"text":"a","meta_info":{"id":%q}}`, b.RID)
	})
	return w
}

// idOf reads the answer to /open_session.
func idOf(t *testing.T, body string) (id string) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(body), &id), "%s", body)
	return id
}

// TestSessionsStayAtTheirWorker: all requests of a session go to the rank that has its history, by
// every router, until it is closed.
func TestSessionsStayAtTheirWorker(t *testing.T) {
	t.Parallel()
	workers := []*sessionWorker{newSessionWorker(t, info(2)), newSessionWorker(t, info(2)), newSessionWorker(t, info(2))}
	var fakes []*fakeWorker
	for _, w := range workers {
		fakes = append(fakes, w.fakeWorker)
	}
	h, other := start(t, fakes, withPolicy("round-robin")), start(t, fakes, withPolicy("round-robin"))
	used := map[string]bool{}
	for i := range 6 {
		open, routers := openBody+`}`, []*harness{h, other}
		if named := i%2 == 1; named {
			open, routers = fmt.Sprintf(openBody+`,"session_id":"mine %d"}`, i), routers[:1]
		}
		resp, body := h.Post("/open_session", open)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		holder, id := resp.Header.Get("X-Warmpath-Worker"), idOf(t, body)
		used[holder] = true
		w := workers[slices.IndexFunc(workers, func(w *sessionWorker) bool { return w.URL == holder })]
		last := ""
		for range 2 {
			for _, r := range routers {
				turn := fmt.Sprintf(`{"text":"hi","rid":"turn","session_params":{"id":%q%s}}`, id, last)
				resp, body := r.Post("/generate", turn)
				require.Equal(t, http.StatusOK, resp.StatusCode, body)
				var a struct {
					Meta struct{ ID string } `json:"meta_info"`
				}
				require.NoError(t, json.Unmarshal([]byte(body), &a))
				last = fmt.Sprintf(`,"rid":%q`, a.Meta.ID) // the next request continues this one
			}
		}
		w.mu.Lock()
		assert.Len(t, slices.Compact(w.ranks[id]), 1, "one rank has the history")
		w.mu.Unlock()

		resp, body = h.Post("/open_session", fmt.Sprintf(openBody+`,"session_id":%q}`, id))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "it is open: %s", body)
		r := routers[len(routers)-1]
		resp, body = r.Post("/close_session", fmt.Sprintf(`{"session_id":%q}`, id))
		assert.Equal(t, http.StatusOK, resp.StatusCode, body)
		resp, body = r.Post("/generate", fmt.Sprintf(`{"text":"hi","session_params":{"id":%q}}`, id))
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Contains(t, body, "does not exist")
	}
	assert.Len(t, used, 3, "sessions are opened by load")
	for _, body := range []string{`{"session_id":"unknown"}`, `{"session_id":"session_` + strings.Repeat("0", 56) + `"}`} {
		resp, got := h.Post("/close_session", body)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		_, param := errorOf(t, got)
		assert.Equal(t, "session_id", param)
	}
	for _, params := range []string{`{"id":[]}`, `{"rid":5}`, `{"rid":["a"]}`, `{"offset":1.5}`, `{"offset":"1"}`, `{"offset":[]}`} {
		resp, got := h.Post("/generate", `{"text":"hi","session_params":`+params+`}`)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
		_, param := errorOf(t, got)
		assert.Equal(t, "session_params", param, params)
	}
}

// TestSessionOfAWorkerThatIsDown: nobody else has the session, and the error says so.
func TestSessionOfAWorkerThatIsDown(t *testing.T) {
	t.Parallel()
	workers := []*sessionWorker{newSessionWorker(t, info(1)), newSessionWorker(t, info(1))}
	h := start(t, []*fakeWorker{workers[0].fakeWorker, workers[1].fakeWorker})
	resp, body := h.Post("/open_session", openBody+`}`)
	turn := fmt.Sprintf(`{"text":"hi","session_params":{"id":%q}}`, idOf(t, body))
	holder := resp.Header.Get("X-Warmpath-Worker")
	for _, w := range workers {
		if w.URL == holder {
			w.On("/ready", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
		}
	}
	h.AwaitReady(1)
	resp, body = h.Post("/generate", turn)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, body)
	assert.Contains(t, body, "The worker that keeps the session")

	resp, body = h.Do(http.MethodDelete, h.Operator+"/workers?url="+holder, "")
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	resp, body = h.Post("/generate", turn)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, body)
	assert.Contains(t, body, "does not exist")
}

// TestSessionsOfOthers: no client continues, closes or opens again a session of another one's.
func TestSessionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newSessionWorker(t, info(1))
	h := start(t, []*fakeWorker{w.fakeWorker}, withKeys(keysOf(t, "alice", "bob")))
	resp, body := h.askBy("alice", "/open_session", openBody+`}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	id := idOf(t, body)
	w.mu.Lock()
	w.open["direct"] = true
	w.mu.Unlock()
	for _, tt := range []struct {
		client, path, body string
		status             int
	}{
		{"bob", "/generate", `{"text":"hi","session_params":{"id":%q}}`, 400},
		{"bob", "/generate", `{"text":"hi","session_params":{"id":"x"},"session_params":{"id":"x","\u0069d":%q}}`, 400},
		{"bob", "/generate", `{"text":"hi","session_id":"x","session_params":{"id":%q}}`, 400},
		{"bob", "/close_session", `{"session_id":%q}`, 400},
		{"bob", "/open_session", openBody + `,"session_id":%q}`, 400},
		{"alice", "/generate", `{"text":"hi","session_params":{"id":%q}}`, 200},
	} {
		resp, body := h.askBy(tt.client, tt.path, fmt.Sprintf(tt.body, id))
		assert.Equal(t, tt.status, resp.StatusCode, "%v: %s", tt, body)
	}
	for _, name := range []string{"direct", "unknown"} {
		resp, body = h.askBy("alice", "/generate", `{"text":"hi","session_params":{"id":"`+name+`"}}`)
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
		assert.Contains(t, body, "not opened by this client")
	}
	resp, body = h.askBy("alice", "/close_session", `{"session_id":"`+id+`"}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode, body)
	w.mu.Lock()
	assert.Equal(t, map[string]bool{"direct": true}, w.open)
	w.mu.Unlock()
}
