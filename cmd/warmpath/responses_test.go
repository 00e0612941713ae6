package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// turnReply is an answer of /v1/responses.
type turnReply struct {
	ID, Status string
	Output     json.RawMessage
	Usage      struct {
		Input   int `json:"input_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
	status         int
	worker, source string
	matched        int
	text           string
}

// askTurn sends a body of /v1/responses when the router knows all that happened before.
func askTurn(t *testing.T, cl *simulation, body map[string]any) (r turnReply) {
	t.Helper()
	settle(t, cl)
	body["model"], body["max_output_tokens"] = "simulated", 20
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	resp, err := http.Post("http://"+cl.router.Addr()+"/v1/responses", "application/json", strings.NewReader(string(raw)))
	require.NoError(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	r.status, r.worker, r.text = resp.StatusCode, resp.Header.Get("X-Warmpath-Worker"), string(answer)
	if r.status != http.StatusOK {
		return r
	}
	if body["stream"] == true {
		events := strings.Split(strings.TrimSpace(r.text), "\n\n")
		_, data, _ := strings.Cut(events[len(events)-1], "data: ")
		var last struct{ Response json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(data), &last), "%s", data)
		answer = last.Response
	}
	require.NoError(t, json.Unmarshal(answer, &r), "%s", answer)
	r.source = resp.Header.Get("X-Warmpath-Overlap-Source")
	_, err = fmt.Sscanf(resp.Header.Get("X-Warmpath-Overlap"), "%d/", &r.matched)
	require.NoError(t, err)
	return r
}

// TestResponsesAreExact holds conversations with and without previous_response_id, streamed and
// not, over three workers: the expected overlap is the cached tokens, and a stored conversation
// stays at its worker.
func TestResponsesAreExact(t *testing.T) {
	cl, base := startCluster(t, 3, sim.Config{ResponseStore: true}, "kv")
	tools := []any{
		map[string]any{"type": "function", "name": "shell", "description": strings.Repeat("runs ", 20), "parameters": map[string]any{"type": "object"}},
		map[string]any{"type": "custom", "name": "apply_patch"},
		map[string]any{"type": "web_search"},
	}
	workers := map[string]bool{}
	for n := 0; n < 8 || len(workers) < 2; n++ { // ties are drawn: now and then one worker gets all
		stored, previous, holder := n%2 == 0, "", ""
		items := []any{
			map[string]any{"type": "message", "role": "developer", "content": "be brief"},
			map[string]any{"type": "message", "role": "user", "content": fmt.Sprintf("talk %d %s", n, strings.Repeat("please look ", 30))},
		}
		for turn := range 5 {
			body := map[string]any{"input": items, "instructions": fmt.Sprintf("%d %s", n, strings.Repeat("you are kind ", 20)), "store": stored, "stream": turn%2 == 1}
			if n%4 < 2 {
				body["tools"] = tools
			}
			if previous != "" {
				body["previous_response_id"] = previous
			}
			settle(t, cl)
			r := askTurn(t, cl, body)
			require.Equal(t, http.StatusOK, r.status, "%s", r.text)
			require.Contains(t, []string{"completed", "incomplete"}, r.Status)
			if n >= 4 { // the first conversations prove the conversion
				assert.Equal(t, "exact", r.source, "turn %d of talk %d", turn, n)
				assert.Equal(t, r.Usage.Details.Cached, r.matched*page, "turn %d of talk %d", turn, n)
				assert.True(t, turn == 0 || r.Usage.Details.Cached > 0, "turn %d of talk %d found nothing", turn, n)
			}
			if stored {
				if previous != "" {
					require.Equal(t, holder, r.worker)
				}
				previous, items = r.ID, nil
			} else {
				var output []any
				require.NoError(t, json.Unmarshal(r.Output, &output))
				items = append(items, output...)
			}
			holder = r.worker
			workers[holder] = true
			call := fmt.Sprintf("call_%d", turn)
			items = append(items,
				map[string]any{"type": "function_call", "call_id": call, "name": "shell", "arguments": `{"command":["ls"]}`},
				map[string]any{"type": "function_call_output", "call_id": call, "output": fmt.Sprintf("file%d\n", turn)})
		}
	}

	explained, err := http.Post(base+"/explain", "application/json", strings.NewReader(`{"model":"simulated","input":"talk 1"}`))
	require.NoError(t, err)
	defer explained.Body.Close()
	assert.Equal(t, http.StatusOK, explained.StatusCode)
}

// TestStoreOfADeadWorker: a response that died with its worker gets the API's own error.
func TestStoreOfADeadWorker(t *testing.T) {
	cl, base := startCluster(t, 3, sim.Config{ResponseStore: true}, "kv")
	r := askTurn(t, cl, map[string]any{"input": "hello", "background": true})
	require.Equal(t, "queued", r.Status)
	shown := func() (int, string) {
		resp, err := http.Get(base + "/v1/responses/" + r.ID)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	testkit.AwaitThat(t, func() bool {
		_, body := shown()
		return strings.Contains(body, `"status":"incomplete"`) || strings.Contains(body, `"status":"completed"`)
	},
		func() string { _, body := shown(); return body })
	next := map[string]any{"input": "go on", "previous_response_id": r.ID}
	require.Equal(t, http.StatusOK, askTurn(t, cl, next).status)
	for _, w := range cl.sims {
		if w.URL() == r.worker {
			w.Faults().Restart(50 * time.Millisecond)
		}
	}
	testkit.AwaitThat(t, func() bool {
		for _, w := range cl.router.Status().Workers {
			if w.ID == r.worker {
				return w.State == "ready" && w.Events.State == "live" && w.Blocks == 0
			}
		}
		return false
	}, func() string { return fmt.Sprintf("%+v", cl.router.Status().Workers) })
	answer := askTurn(t, cl, next)
	assert.Equal(t, http.StatusNotFound, answer.status)
	assert.Contains(t, answer.text, `"message":"Response with id '`+r.ID+`' not found."`)
	status, body := shown()
	assert.Equal(t, http.StatusNotFound, status, "%s", body)
}
