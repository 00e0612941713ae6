package request_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// responsesBody is a body of /v1/responses without its end.
const responsesBody = `{"model":"tiny","instructions":"Be brief.","input":"hi"`

// storing is the /server_info of a worker that stores responses.
const storing = `{"version":"0.5.23","served_model_name":"tiny","page_size":4,"dp_size":1,"enable_response_store":true}`

// Answers of /v1/responses, as SGLang 0.5.23 sends them.
const (
	responseReply = `{"id":"resp_1","object":"response","created_at":1,"model":"tiny","output":[{"id":"msg_1","content":[{"annotations":[],"text":"a","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":"final_answer"}],"status":"completed","usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":0},"output_tokens":1,"total_tokens":8},"metadata":{"cached_tokens":99}}`
	responseBegin = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"error\":null},\"sequence_number\":0}\n\n" +
		"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"id\":\"resp_1\",\"status\":\"in_progress\",\"error\":null},\"sequence_number\":1}\n\n"
	responseDelta  = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"a\",\"sequence_number\":2}\n\n"
	responseEnd    = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + responseReply + ",\"sequence_number\":3}\n\n"
	responseFailed = "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"id\":\"resp_1\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"boom\"}},\"sequence_number\":2}\n\n"
)

// readResponsesError reads an error as OpenAI's clients read it.
func readResponsesError(t *testing.T, body string) (kind, param string) {
	t.Helper()
	var e struct {
		Error struct{ Message, Type, Param string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &e), "%s", body)
	require.NotEmpty(t, e.Error.Message, "%s", body)
	return e.Error.Type, e.Error.Param
}

// TestResponsesPassUnchanged: the worker gets the client's bytes and header, and the id of the
// response.
func TestResponsesPassUnchanged(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	header := make(chan http.Header, 1)
	w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
		header <- r.Header
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, responseReply)
	})
	h := start(t, []*fakeWorker{w})
	codex := []string{"originator", "codex_cli_rs", "session_id", "s1", "conversation_id", "s1", "OpenAI-Beta", "responses=experimental"}
	resp, body := h.Do(http.MethodPost, h.Base+"/v1/responses", responsesBody+"}", codex...)
	assert.Equal(t, responseReply, body)
	assert.NotEmpty(t, resp.Header.Get("X-Warmpath-Overlap"))
	got := <-header
	for i := 0; i < len(codex); i += 2 {
		assert.Equal(t, codex[i+1], got.Get(codex[i]), codex[i])
	}
	rest, ok := strings.CutPrefix(w.LastBody(), responsesBody+`,"request_id":"resp_`)
	require.True(t, ok, "%s", w.LastBody())
	assert.Len(t, rest, 32+len(`"}`))
	h.AwaitEnded(1)
	st := h.Admin.Status()
	assert.EqualValues(t, 7, st.PromptTokens)
	assert.InDelta(t, 4.0/7, st.HitRate, 1e-9, "the client's metadata is no usage")
}

// TestResponsesErrors: the router's own errors are OpenAI's, and those of a body that only an engine
// judges are the engine's.
func TestResponsesErrors(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	const own = `{"error":{"message":"the engine's","type":"invalid_request_error","param":"tools","code":400}}`
	w.On("/v1/responses", func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(rw, own)
	})
	h := start(t, []*fakeWorker{w}, withConfig(func(c *request.Config) { c.MaxBodyBytes = 4096 }))
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"no JSON":      {"POST", "/v1/responses", `{`, 400},
		"empty":        {"POST", "/v1/responses", ``, 400},
		"a list":       {"POST", "/v1/responses", `[]`, 400},
		"deep":         {"POST", "/v1/responses", `{"input":` + deep + `}`, 400},
		"deep tools":   {"POST", "/v1/responses", `{"input":"a","tools":` + deep + `}`, 400},
		"deadly top_k": {"POST", "/v1/responses", responsesBody + `,"top_k":3000000000}`, 400},
		"deadly count": {"POST", "/v1/responses", responsesBody + `,"top_logprobs":"2_000_000"}`, 400},
		"other model":  {"POST", "/v1/responses", `{"model":"nope","input":"a"}`, 404},
		"no such path": {"POST", "/v1/responses/resp_1/input_items", `{}`, 404},
		"method":       {"GET", "/v1/responses", ``, 405},
		"delete":       {"DELETE", "/v1/responses/resp_1", ``, 405},
		"too large":    {"POST", "/v1/responses", responsesBody + `,"x":"` + strings.Repeat("x", 5000) + `"}`, 413},
	} {
		resp, body, err := h.Try(c.method, h.Base+c.path, c.body)
		require.NoError(t, err, name)
		assert.Equal(t, c.status, resp.StatusCode, "%s: %s", name, body)
		readResponsesError(t, body)
		assert.NotEqual(t, own, body, name)
	}
	for _, body := range []string{
		`{"model":"tiny"}`, `{"model":"tiny","input":null}`, `{"model":"tiny","input":[]}`, `{"model":"tiny","input":[5]}`,
		`{"model":"tiny","input":[{"type":"item_reference","id":"x"}]}`, `{"model":"tiny","input":"a","tools":[{"type":"shell"}]}`,
		`{"model":"tiny","input":"a","tools":null}`, `{"model":"tiny","input":"a","tool_choice":"required"}`, `{"model":"tiny","input":"a","reasoning":5}`,
	} {
		_, answer := h.Post("/v1/responses", body)
		assert.Equal(t, own, answer, body)
	}
}

// TestResponsesBrokenStream: a stream that breaks ends with the API's error events, with the
// numbers that come next.
func TestResponsesBrokenStream(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	w.Breaks("/v1/responses", responseBegin+responseDelta)
	h := start(t, []*fakeWorker{w})
	_, body := h.Post("/v1/responses", responsesBody+`,"stream":true}`)
	rest, ok := strings.CutPrefix(body, responseBegin+responseDelta)
	require.True(t, ok, "%s", body)
	events := strings.Split(strings.TrimSuffix(rest, "\n\n"), "\n\n")
	require.Len(t, events, 2)
	for i, name := range []string{"error", "response.failed"} {
		data, ok := strings.CutPrefix(events[i], "event: "+name+"\ndata: ")
		require.True(t, ok, "%s", events[i])
		var e struct {
			Type     string
			Number   int `json:"sequence_number"`
			Message  string
			Response struct {
				ID, Status string
				Error      struct{ Code, Message string }
			}
		}
		require.NoError(t, json.Unmarshal([]byte(data), &e), "%s", data)
		assert.Equal(t, name, e.Type)
		assert.Equal(t, 3+i, e.Number)
		if i == 1 {
			assert.Equal(t, "failed", e.Response.Status)
			assert.Equal(t, "server_error", e.Response.Error.Code)
			assert.NotEmpty(t, e.Response.ID)
		}
	}
}

// TestResponsesFailureOfTheClient: where all workers fail alike, the client gets a worker's own
// events, and no worker is blamed.
func TestResponsesFailureOfTheClient(t *testing.T) {
	t.Parallel()
	a, b := newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	a.Streams("/v1/responses", responseBegin+responseFailed)
	b.Streams("/v1/responses", responseBegin+responseFailed)
	h := start(t, []*fakeWorker{a, b})
	for range 20 {
		_, body := h.Post("/v1/responses", responsesBody+`,"stream":true}`)
		require.Equal(t, responseBegin+responseFailed, body)
	}
	for _, w := range h.Admin.Status().Workers {
		assert.Equal(t, "ready", w.State)
	}
}

// TestStoredResponses: a response is continued, shown and cancelled by the worker that stores it,
// also for a router that has not seen it made.
func TestStoredResponses(t *testing.T) {
	t.Parallel()
	var workers []*fakeWorker
	for range 3 {
		w := newFakeWorker(t, storing)
		w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
			var b struct {
				ID       string `json:"request_id"`
				Previous string `json:"previous_response_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&b)
			for _, path := range []string{"/v1/responses/" + b.ID, "/v1/responses/" + b.ID + "/cancel"} {
				w.Answers(path, `{"id":"`+b.ID+`"}`)
			}
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, strings.Replace(responseReply, "resp_1", b.ID, 1))
		})
		workers = append(workers, w)
	}
	h, other := start(t, workers, withPolicy("round-robin")), start(t, workers, withPolicy("round-robin"))
	id := func(body string) string {
		var r struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(body), &r), "%s", body)
		require.True(t, strings.HasPrefix(r.ID, "resp_"), "%s", body)
		return r.ID
	}
	for i := range 6 {
		more := ""
		if i%2 == 1 {
			more = `,"request_id":"resp_` + strings.Repeat(string(rune('a'+i)), 32) + `"`
		}
		resp, body := h.Post("/v1/responses", responsesBody+more+"}")
		holder, previous := resp.Header.Get("X-Warmpath-Worker"), id(body)
		routers := []*harness{h, other}
		if more != "" {
			routers = routers[:1] // the client's own id does not name the worker
		}
		for _, r := range routers {
			resp, body := r.Do(http.MethodGet, r.Base+"/v1/responses/"+previous, "")
			assert.Equal(t, holder, resp.Header.Get("X-Warmpath-Worker"))
			assert.Equal(t, previous, id(body))
			resp, _ = r.Post("/v1/responses/"+previous+"/cancel", "")
			assert.Equal(t, holder, resp.Header.Get("X-Warmpath-Worker"))
			for range 3 {
				resp, body = r.Post("/v1/responses", `{"model":"tiny","input":"b","previous_response_id":"`+previous+`"}`)
				assert.Equal(t, holder, resp.Header.Get("X-Warmpath-Worker"))
				assert.NotEqual(t, previous, id(body))
			}
		}
	}
	resp, body := h.Do(http.MethodGet, h.Base+"/v1/responses/resp_unknown", "")
	kind, param := readResponsesError(t, body)
	assert.Equal(t, []any{404, "invalid_request_error", "response_id"}, []any{resp.StatusCode, kind, param})
}

// TestResponsesOfOtherKeys: a stored response is its own key's, also at a router that has not seen it made: for
// another key it does not exist, and no worker is asked.
func TestResponsesOfOtherKeys(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2} {
		var workers []*fakeWorker
		asked := make(chan string, 100)
		for range n {
			w := newFakeWorker(t, storing)
			w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
				var b struct {
					ID string `json:"request_id"`
				}
				_ = json.NewDecoder(r.Body).Decode(&b)
				for _, path := range []string{"/v1/responses/" + b.ID, "/v1/responses/" + b.ID + "/cancel"} {
					w.On(path, func(rw http.ResponseWriter, _ *http.Request) {
						asked <- path
						_, _ = io.WriteString(rw, `{"id":"`+b.ID+`"}`)
					})
				}
				asked <- b.ID
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, strings.Replace(responseReply, "resp_1", b.ID, 1))
			})
			workers = append(workers, w)
		}
		h, other := start(t, workers, withKeys(keysOf(t, "ann", "bob"))), start(t, workers, withKeys(keysOf(t, "ann", "bob")))
		for _, more := range []string{"", `,"request_id":"resp_` + strings.Repeat("a", 32) + `"`} {
			_, body := h.askBy("ann", "/v1/responses", responsesBody+more+"}")
			made := <-asked
			assert.Contains(t, body, made)
			for _, r := range []*harness{h, other} {
				for name, status := range map[string]int{"ann": http.StatusOK, "bob": http.StatusNotFound} {
					for _, req := range [][3]string{
						{http.MethodGet, "/v1/responses/" + made},
						{http.MethodPost, "/v1/responses/" + made + "/cancel"},
						{http.MethodPost, "/v1/responses", responsesBody + `,"previous_response_id":"` + made + `"}`},
					} {
						resp, body := r.Do(req[0], r.Base+req[1], req[2], by(name)...)
						require.Equal(t, status, resp.StatusCode, "%d workers: %s %s: %s", n, name, req[1], body)
						if status == http.StatusOK {
							<-asked
						}
					}
				}
				require.Empty(t, asked)
			}
		}
	}
}

// A stored response of a worker that is down is not another model's: the error names the missing one.
func TestStoredResponseOfAWorkerThatIsDown(t *testing.T) {
	t.Parallel()
	workers := []*fakeWorker{newFakeWorker(t, storing), newFakeWorker(t, storing)}
	for _, w := range workers {
		w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
			var b struct {
				ID string `json:"request_id"`
			}
			_ = json.NewDecoder(r.Body).Decode(&b)
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, strings.Replace(responseReply, "resp_1", b.ID, 1))
		})
	}
	h := start(t, workers)
	resp, body := h.Post("/v1/responses", responsesBody+"}")
	require.Equal(t, http.StatusOK, resp.StatusCode, body)
	var r struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &r))
	for _, w := range workers {
		if w.URL == resp.Header.Get("X-Warmpath-Worker") {
			w.On("/ready", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusServiceUnavailable) })
		}
	}
	h.AwaitReady(1)
	for _, req := range [][3]string{
		{"GET", "/v1/responses/" + r.ID},
		{"POST", "/v1/responses/" + r.ID + "/cancel"},
		{"POST", "/v1/responses", responsesBody + `,"previous_response_id":"` + r.ID + `"}`},
	} {
		resp, body := h.Do(req[0], h.Base+req[1], req[2])
		assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, body)
		assert.Contains(t, body, "The worker that stores the response", req[1])
		assert.NotContains(t, body, "model")
		assert.NotEmpty(t, resp.Header.Get("Retry-After"))
	}
}

// TestUnstoredResponses: workers without a store answer with their own error.
func TestUnstoredResponses(t *testing.T) {
	t.Parallel()
	var workers []*fakeWorker
	for range 2 {
		w := newFakeWorker(t, info(1))
		w.On("/v1/responses/resp_1", func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, `{"error":{"message":"Response store is disabled."}}`)
		})
		workers = append(workers, w)
	}
	h := start(t, workers)
	resp, body := h.Do(http.MethodGet, h.Base+"/v1/responses/resp_1", "")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, body, "disabled")
}

// TestResponsesTemplate: a chat template in a body of /v1/responses, which SGLang forgets to
// refuse, reaches only workers that trust it.
func TestResponsesTemplate(t *testing.T) {
	t.Parallel()
	const template = `{"chat_template":"{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"}`
	for _, tt := range []struct {
		name, info, body string
		status           int
	}{
		{"refused", info(1), responsesBody + `,"chat_template_kwargs":` + template, http.StatusBadRequest},
		{"escaped", info(1), responsesBody + `,"chat_templ\u0061te_kwargs":` + strings.Replace(template, "chat_t", `cha\u0074_t`, 1), http.StatusBadRequest},
		{"not converted", info(1), `{"model":"tiny","input":[{"type":"item_reference"}],"chat_template_kwargs":` + template, http.StatusBadRequest},
		{"null", info(1), responsesBody + `,"chat_template_kwargs":{"chat_template":null}`, http.StatusBadRequest},
		{"other", info(1), responsesBody + `,"chat_template_kwargs":{"enable_thinking":false},"metadata":` + template, http.StatusOK},
		{"trusted", strings.TrimSuffix(info(1), "}") + `,"trust_request_chat_template":true}`, responsesBody + `,"chat_template_kwargs":` + template, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorker(t, tt.info)
			w.Answers("/v1/responses", responseReply)
			resp, body := start(t, []*fakeWorker{w}).Post("/v1/responses", tt.body+"}")
			require.Equal(t, tt.status, resp.StatusCode, body)
			if tt.status == http.StatusBadRequest {
				kind, param := readResponsesError(t, body)
				assert.Equal(t, "invalid_request_error", kind)
				assert.Equal(t, "chat_template_kwargs", param)
			}
		})
	}
}
