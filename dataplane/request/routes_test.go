package request_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// errorOf checks that an answer is an error in OpenAI's form and returns its code.
func errorOf(t *testing.T, body string) (code, param string) {
	t.Helper()
	var e struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
			Param   string `json:"param"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &e), "%q", body)
	assert.NotEmpty(t, e.Error.Message)
	assert.NotEmpty(t, e.Error.Type)
	return e.Error.Code, e.Error.Param
}

func TestBadInput(t *testing.T) { overBoth(t, testBadInput) }

func testBadInput(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	tests := []struct {
		name, method, path, body string
		status                   int
		code, param              string
	}{
		{"not JSON", "POST", "/generate", "hello", 400, "invalid_json", ""},
		{"empty", "POST", "/generate", "", 400, "invalid_json", ""},
		{"truncated", "POST", "/generate", `{"text":"a`, 400, "invalid_json", ""},
		{"no prompt", "POST", "/generate", `{}`, 400, "", "text"},
		{"empty text", "POST", "/generate", `{"text":""}`, 400, "", "text"},
		{"empty prompt among others", "POST", "/v1/completions", `{"model":"tiny","prompt":["a",""]}`, 400, "", "prompt"},
		{"empty ids", "POST", "/generate", `{"input_ids":[]}`, 400, "", "input_ids"},
		{"wrong type", "POST", "/generate", `{"input_ids":["a"]}`, 400, "", "input_ids"},
		{"negative id", "POST", "/generate", `{"input_ids":[-1]}`, 400, "", "input_ids"},
		{"model of a wrong type", "POST", "/v1/completions", `{"model":7,"prompt":"x"}`, 400, "", "model"},
		{"messages of a wrong type", "POST", "/v1/chat/completions", `{"model":"tiny","messages":"x"}`, 400, "", "messages"},
		{"unknown model", "POST", "/v1/chat/completions", `{"model":"no","messages":[{"role":"user","content":"x"}]}`, 404, "model_not_found", "model"},
		{"too large", "POST", "/generate", `{"text":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "request_too_large", ""},
		{"unknown path", "POST", "/update_weights_from_disk", `{}`, 404, "not_found", ""},
		{"wrong method", "GET", "/generate", "", 405, "method_not_allowed", ""},
		{"a rank that nobody has", "POST", "/generate", `{"input_ids":[1],"routed_dp_rank":1}`, 400, "", "routed_dp_rank"},
		{"abort without id", "POST", "/abort_request", `{"abort_all":true}`, 400, "", "rid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp, got := h.Do(tt.method, h.Base+tt.path, tt.body)
			assert.Equal(t, tt.status, resp.StatusCode, got)
			code, param := errorOf(t, got)
			if tt.code != "" {
				assert.Equal(t, tt.code, code)
			}
			assert.Equal(t, tt.param, param)
			assert.Equal(t, "application/json", resp.Header.Get("Content-Type"))

			ok, body := h.Post("/generate", idsBody) // nobody else is harmed
			assert.Equal(t, http.StatusOK, ok.StatusCode)
			assert.Equal(t, idsReply, body)
		})
	}
}

// raw sends bytes unchanged and returns the status.
func (h *harness) raw(request string) int {
	h.t.Helper()
	conn, br := h.dial()
	defer conn.Close()
	_, err := io.WriteString(conn, request)
	require.NoError(h.t, err)
	resp, err := http.ReadResponse(br, nil)
	require.NoError(h.t, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

func TestNoWorker(t *testing.T) {
	h := start(t, nil)
	resp, got := h.Post("/generate", idsBody)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	code, _ := errorOf(t, got)
	assert.Equal(t, "no_worker", code)
	resp, _ = h.Do(http.MethodGet, h.Base+"/ready", "")
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	resp, _ = h.Do(http.MethodGet, h.Base+"/health", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
}

func TestWorkersAPI(t *testing.T) { overBoth(t, testWorkersAPI) }

func testWorkersAPI(t *testing.T) {
	t.Helper()
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, nil)
	call := func(method, path, body string) (int, string) {
		resp, got := h.Do(method, h.Operator+path, body)
		return resp.StatusCode, got
	}
	status, _ := call("POST", "/workers", `{"url":"`+w.URL+`"}`)
	require.Equal(t, http.StatusOK, status)
	h.AwaitReady(1)
	resp, _ := h.Post("/generate", idsBody)
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	status, got := call("GET", "/workers", "")
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, got, w.URL)
	status, _ = call("POST", "/workers", `{"url":"`+w.URL+`"}`)
	assert.Equal(t, http.StatusConflict, status)
	for _, bad := range []string{`{"url":"ftp://x"}`, `{}`, `nonsense`, `{"url":"http://x/path"}`} {
		status, got = call("POST", "/workers", bad)
		assert.Equal(t, http.StatusBadRequest, status, got)
	}
	status, _ = call("POST", "/workers/drain", `{"url":"`+w.URL+`"}`)
	require.Equal(t, http.StatusOK, status)
	resp, _ = h.Post("/generate", idsBody)
	assert.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "a draining worker gets nothing new")
	status, _ = call("POST", "/workers/drain", `{"url":"`+w.URL+`","drain":false}`)
	require.Equal(t, http.StatusOK, status)
	resp, _ = h.Post("/generate", idsBody)
	assert.Equal(t, http.StatusOK, resp.StatusCode)

	status, _ = call("DELETE", "/workers?url="+w.URL, "")
	assert.Equal(t, http.StatusOK, status)
	status, _ = call("DELETE", "/workers?url="+w.URL, "")
	assert.Equal(t, http.StatusNotFound, status)
	status, _ = call("PUT", "/workers", "")
	assert.Equal(t, http.StatusMethodNotAllowed, status)
}

func TestOperatorAPIIsApart(t *testing.T) { overBoth(t, testOperatorAPIIsApart) }

func testOperatorAPIIsApart(t *testing.T) {
	t.Helper()
	h := start(t, nil, withOperator("secret"))
	get := func(base, path string, header ...string) int {
		resp, _ := h.Do(http.MethodGet, base+path, "", header...)
		return resp.StatusCode
	}
	var wrong sync.WaitGroup // each waits
	defer wrong.Wait()
	for _, path := range []string{"/status", "/history", "/choices", "/index", "/what_if", "/list_workers", "/get_loads", "/v1/loads", "/nodes", "/links", "/metrics", "/workers", "/debug/index", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=2"} {
		assert.Equal(t, http.StatusNotFound, get(h.Base, path), "clients do not reach %s", path)
		assert.Equal(t, http.StatusUnauthorized, get(h.Operator, path))
		wrong.Go(func() {
			assert.Equal(t, http.StatusUnauthorized, get(h.Operator, path, "Authorization", "Bearer wrong"))
		})
		assert.Equal(t, http.StatusOK, get(h.Operator, path, "Authorization", "Bearer secret"))
	}
	for _, path := range []string{"/console", "/", "/health"} {
		assert.Equal(t, http.StatusOK, get(h.Operator, path))
	}
	assert.Equal(t, http.StatusNotFound, get(h.Base, "/"), "the console is the operators'")
	assert.Equal(t, http.StatusOK, get(start(t, nil).Base, "/"), "who opens the address that up prints sees something")
}

func TestMetricsAndStatus(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.Answers("/generate", idsReply)
	h := start(t, []*fakeWorker{w})
	h.Post("/generate", idsBody)
	h.Post("/generate", "nonsense")
	h.AwaitEnded(2)
	_, got := h.Do(http.MethodGet, h.Operator+"/metrics", "")
	for _, want := range []string{
		`warmpath_policy_info{policy="kv"} 1`, `warmpath_requests_total{rank="0",status="200",worker="` + w.URL + `"} 1`,
		`warmpath_errors_total{reason="invalid_json",status="400"} 1`,
		`warmpath_hit_tokens_total{rank="0",worker="` + w.URL + `"} 8`,
		`warmpath_prompt_tokens_total{rank="0",worker="` + w.URL + `"} 9`,
		`warmpath_expected_hit_tokens_total{source="approximate"} 0`,
		`warmpath_ttft_seconds_bucket{model="tiny",le="0.005"}`,
		`warmpath_request_seconds_count{model="tiny"} 1`,
		`warmpath_worker_up{role="regular",state="ready",worker="` + w.URL + `"} 1`,
		"# TYPE warmpath_ttft_seconds histogram", "warmpath_index_blocks 0",
		`warmpath_ranks{overlap="exact"} 0`, `warmpath_ranks{overlap="approximate"} 1`,
		"warmpath_approx_bytes ", "warmpath_approx_max_bytes 6.7108864e+07", `warmpath_approx_evictions_total{reason="memory"} 0`,
		`warmpath_approx_corrections_total{kind="surprised"} 0`,
	} {
		assert.Contains(t, got, want)
	}
	_, got = h.Do(http.MethodGet, h.Operator+"/status", "")
	var st admin.Status
	require.NoError(t, json.Unmarshal([]byte(got), &st))
	assert.Equal(t, "kv", st.Policy)
	assert.Zero(t, st.Errors)
	assert.EqualValues(t, 1, st.ClientErrors, "a client's mistake is no error of the service")
	require.Len(t, st.Workers, 1)
	assert.Equal(t, "ready", st.Workers[0].State)
	assert.Equal(t, "tiny", st.Workers[0].Model)
	assert.Equal(t, "none", st.Workers[0].Events.State)
}

func TestForwardedRoutes(t *testing.T) {
	w := newFakeWorker(t, info(1))
	w.On("/v1/chat/completions", func(rw http.ResponseWriter, r *http.Request) {
		assert.Equal(t, http.MethodOptions, r.Method)
		rw.Header().Set("Access-Control-Allow-Origin", "*")
	})
	h := start(t, []*fakeWorker{w})
	resp, _ := h.Do(http.MethodOptions, h.Base+"/v1/chat/completions", "", "Origin", "http://page")
	assert.Equal(t, "*", resp.Header.Get("Access-Control-Allow-Origin"))
	for path, want := range map[string]string{"/v1/models/tiny": `{"id":"tiny"}`, "/health_generate": "alive"} {
		w.Answers(path, want)
		_, got := h.Do(http.MethodGet, h.Base+path, "")
		assert.Equal(t, want, got)
	}
	for _, path := range []string{"/rerank", "/v1/messages/count_tokens"} {
		w.Answers(path, `{"n":1}`)
		_, got := h.Post(path, `{"model":"tiny"}`)
		assert.Equal(t, `{"n":1}`, got, path)
	}
	for _, path := range []string{"/healthz", "/readyz", "/liveness", "/readiness"} {
		assert.Equal(t, http.StatusOK, h.raw("GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"), path)
	}
}

func TestModels(t *testing.T) { overBoth(t, testModels) }

func testModels(t *testing.T) {
	t.Helper()
	a, b, c := newFakeWorker(t, info(1)), newFakeWorker(t, info(1)), newFakeWorker(t, info(1))
	c.Answers("/v1/models", `{"object":"list","data":[{"id":"other"}]}`)
	a.Answers("/v1/models", `{"object":"list","data":[{"id":"tiny","max_model_len":8192}]}`)
	b.Answers("/v1/models", `{"object":"list","data":[{"id":"tiny","max_model_len":4096},{"id":"adapter","parent":"tiny","max_model_len":null}]}`)
	h := start(t, []*fakeWorker{a, b, c})
	_, got := h.Do(http.MethodGet, h.Base+"/v1/models", "")
	assert.Equal(t, 1, strings.Count(got, `"id":"tiny"`))
	assert.Equal(t, 2, strings.Count(got, `"max_model_len":4096`), "what a prompt may have at whichever worker")
	assert.Equal(t, 1, strings.Count(got, `"max_model_len":null`), "a worker that does not say")
	assert.Equal(t, 1, strings.Count(got, `"id":"adapter"`))
	assert.Equal(t, 1, strings.Count(got, `"root":"adapter"`), "clients look for it")
	resp, got := h.Do(http.MethodHead, h.Base+"/v1/models", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Empty(t, got)
}

// With several models a request without a body has no field that names one: its path does, or it
// is not about a model.
func TestPathsOfSeveralModels(t *testing.T) {
	names := []string{"tiny", "org/other"}
	var workers []*fakeWorker
	for _, name := range names {
		w := newFakeWorker(t, strings.Replace(info(1), "tiny", name, 1))
		w.Answers("/v1/models", `{"object":"list","data":[{"id":"`+name+`"}]}`)
		for _, path := range names {
			w.Answers("/v1/models/"+path, `{"id":"`+name+`"}`)
		}
		w.On("/v1/models/neither", func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(rw, `{"error":{"message":"the engine's own"}}`)
		})
		w.Answers("/health_generate", "{}")
		w.Answers("/v1/completions", `{"choices":[{"text":"","message":{"content":""}}]}`)
		workers = append(workers, w)
	}
	h := start(t, workers)
	for range 8 { // chance does not choose
		for i, name := range names {
			for _, path := range []string{name, strings.ReplaceAll(name, "/", "%2F")} {
				resp, got := h.Do(http.MethodGet, h.Base+"/v1/models/"+path, "")
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				assert.Equal(t, workers[i].URL, resp.Header.Get("X-Warmpath-Worker"))
				assert.Equal(t, `{"id":"`+name+`"}`, got)
			}
		}
	}
	resp, got := h.Do(http.MethodGet, h.Base+"/v1/models/neither", "")
	assert.Equal(t, http.StatusNotFound, resp.StatusCode, got)
	assert.Contains(t, got, "the engine's own")
	resp, got = h.Do(http.MethodGet, h.Base+"/health_generate", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode, got)
	for _, path := range []string{"/v1/completions", "/model_info", "/v1/models/tiny"} {
		resp, got = h.Do(http.MethodOptions, h.Base+path, "")
		assert.NotEqual(t, http.StatusBadRequest, resp.StatusCode, "a browser's preflight: %s", got)
	}
	resp, got = h.Do(http.MethodGet, h.Base+"/model_info", "")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
	assert.Contains(t, got, "/v1/models/{model}")
}

// PUT is POST wherever it is to SGLang, and nowhere else.
func TestPut(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w})
	w.Answers("/generate", idsReply)
	for path, body := range map[string]string{
		"/generate": idsBody, "/encode": `{"text":"x"}`, "/classify": `{"text":"x"}`, "/v1/rerank": `{"query":"x","documents":["y"]}`,
	} {
		if path != "/generate" {
			w.Answers(path, `{"data":[]}`)
		}
		resp, got := h.Do(http.MethodPut, h.Base+path, body)
		assert.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, got)
		resp, _ = h.Do(http.MethodDelete, h.Base+path, body)
		assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, path)
		assert.Equal(t, "POST, PUT", resp.Header.Get("Allow"))
	}
	for _, path := range []string{
		"/v1/completions", "/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings", "/v1/score", "/v1/classify",
		"/tokenize", "/abort_request", "/v1/models", "/health_generate",
	} {
		resp, got := h.Do(http.MethodPut, h.Base+path, `{}`)
		assert.GreaterOrEqual(t, resp.StatusCode, 400, got)
		assert.Less(t, resp.StatusCode, 500, got)
	}
	assert.Len(t, w.Bodies(), 4)
}
