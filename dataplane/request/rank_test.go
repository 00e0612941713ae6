package request_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request/requesttest"
)

// rankedBodies are requests without a rank, by route.
var rankedBodies = map[string]string{
	"/generate":            `{"input_ids":[1,2,3]}`,
	"/v1/completions":      `{"model":"tiny","prompt":[1,2,3]}`,
	"/v1/chat/completions": `{"model":"tiny","messages":[{"role":"user","content":"x"}]}`,
	"/v1/messages":         `{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"x"}]}`,
	"/v1/responses":        `{"model":"tiny","input":"x"}`,
}

// sglangRank returns the rank of a request as SGLang 0.5.23 reads it: of a header at the OpenAI
// routes, else of the body. "" is none.
func sglangRank(path string, header http.Header, body string) string {
	var m map[string]any
	_ = json.Unmarshal([]byte(body), &m)
	if v := header.Values("X-Data-Parallel-Rank"); path != "/generate" && len(v) > 0 {
		return v[0]
	}
	for _, name := range []string{"routed_dp_rank", "data_parallel_rank"} {
		if v := m[name]; v != nil && (path != "/v1/messages" || name == "routed_dp_rank") {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// answersRanks has the worker answer all routes of rankedBodies, and tells the rank of each request.
func answersRanks(w *fakeWorker) <-chan string {
	ranks := make(chan string, 1024)
	for path := range rankedBodies {
		w.On(path, func(rw http.ResponseWriter, r *http.Request) {
			ranks <- sglangRank(path, r.Header, w.LastBody())
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprint(rw, `{"text":"x","choices":[{"text":"x","message":{"content":"x"}}],"output":[{"id":"x"}],"content":[{"type":"text"}],"id":"x","type":"message","meta_info":{"id":"x","finish_reason":{"type":"length"}}}`)
		})
	}
	return ranks
}

// The rank that a client asks for is the engine's and the answer's, in whichever way it is asked
// for. Others are refused, by header as in the body, and no worker gets them.
func TestAskedRanks(t *testing.T) {
	w := newFakeWorker(t, info(2))
	asked := answersRanks(w)
	h := start(t, []*fakeWorker{w})
	const header, field, old = "X-Data-Parallel-Rank", `"routed_dp_rank":`, `"data_parallel_rank":`
	tests := []struct {
		header, body  string
		rank, refusal string // named by a refusal
	}{
		{"0", "", "0", ""},
		{"1", "", "1", ""},
		{" 1 ", "", "1", ""},
		{"1", field + "1", "1", ""},
		{"1", old + "1", "1", ""},
		{"1", field + `"1"`, "1", ""},
		{"", field + "1", "1", ""},
		{"", old + "1", "1", ""},
		{"", field + "null," + old + "1", "1", ""},
		{"", field + "1," + old + "0", "1", ""},
		{"2", "", "", header},
		{"9", "", "", header},
		{"-1", "", "", header},
		{"x", "", "", header},
		{"1.0", "", "", header},
		{"18446744073709551617", "", "", header},
		{"x", field + "1", "", header},
		{"0", field + "1", "", "for the rank 0 and the body for 1"},
		{"0", old + "1", "", "for the rank 0 and the body for 1"},
		{"", field + "2", "", "routed_dp_rank"},
		{"", field + "-1", "", "routed_dp_rank"},
		{"", old + "2", "", "routed_dp_rank"},
		{"", field + `"x"`, "", "routed_dp_rank"},
		{"", old + `"x"`, "", "data_parallel_rank"},
	}
	for path, plain := range rankedBodies {
		for _, tt := range tests {
			t.Run(path+" "+tt.header+" "+tt.body, func(t *testing.T) {
				body := strings.TrimSuffix(plain, "}") + "," + tt.body + "}"
				if tt.body == "" {
					body = plain
				}
				var fields []string
				if tt.header != "" {
					fields = []string{header, tt.header}
				}
				for range 4 { // chance does not choose the rank each time
					resp, got := h.Do(http.MethodPost, h.Base+path, body, fields...)
					if tt.refusal == "" {
						require.Equal(t, http.StatusOK, resp.StatusCode, got)
						assert.Equal(t, tt.rank, <-asked)
						assert.Equal(t, w.URL+"#"+tt.rank, resp.Header.Get("X-Warmpath-Worker"))
						continue
					}
					require.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
					assert.Contains(t, got, tt.refusal)
					if tt.header == "" && tt.body[len(tt.body)-1] != '"' {
						assert.Contains(t, got, "0 to 1", "what is allowed")
					}
				}
			})
		}
	}
}

// Two header fields count as one only where they are equal.
func TestRankIsAskedForOnce(t *testing.T) {
	w := newFakeWorker(t, info(2))
	asked := answersRanks(w)
	h := start(t, []*fakeWorker{w})
	const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 33\r\nX-Data-Parallel-Rank: 1\r\n"
	assert.Equal(t, http.StatusBadRequest, h.raw(head+"x-data-parallel-rank: 0\r\n\r\n"+rankedBodies["/v1/completions"]))
	assert.Equal(t, http.StatusOK, h.raw(head+"x-data-parallel-rank: 1\r\n\r\n"+rankedBodies["/v1/completions"]))
	assert.Equal(t, "1", <-asked)
}

// A worker without several ranks has the rank 0, which it needs no name for.
func TestRankOfAWorkerWithOne(t *testing.T) {
	w := newFakeWorker(t, info(1))
	asked := answersRanks(w)
	h := start(t, []*fakeWorker{w})
	for path, body := range rankedBodies {
		resp, got := h.Do(http.MethodPost, h.Base+path, body, "X-Data-Parallel-Rank", "0")
		assert.Equal(t, http.StatusOK, resp.StatusCode, got)
		assert.Equal(t, w.URL, resp.Header.Get("X-Warmpath-Worker"))
		<-asked
		resp, got = h.Do(http.MethodPost, h.Base+path, body, "X-Data-Parallel-Rank", "1")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
		assert.Contains(t, got, "only data-parallel rank is 0")
	}
}

// Both workers of a pair have the rank that is asked for, or none gets the request.
func TestAskedRanksOfPairs(t *testing.T) {
	p, d := newPair(t, 1, 1, 2)
	asked := make(chan string, 1024)
	for _, l := range []*fakeLeg{p[0], d[0]} {
		l.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			asked <- sglangRank(r.URL.Path, r.Header, l.LastBody())
			meets(l, rw, r, b)
		})
	}
	h := startPair(t, p, d)
	for _, path := range []string{"/generate", "/v1/completions", "/v1/chat/completions", "/v1/responses"} {
		plain := rankedBodies[path]
		resp, got := h.Do(http.MethodPost, h.Base+path, plain, "X-Data-Parallel-Rank", "1")
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		assert.Equal(t, []string{"1", "1"}, []string{<-asked, <-asked}, path)
		assert.Equal(t, p[0].URL+"#1", resp.Header.Get("X-Warmpath-Prefill"))
		assert.Equal(t, d[0].URL+"#1", resp.Header.Get("X-Warmpath-Worker"))

		resp, got = h.Post(path, strings.TrimSuffix(plain, "}")+`,"routed_dp_rank":1}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		assert.Equal(t, []string{"1", "1"}, []string{<-asked, <-asked}, path)
		assert.Equal(t, d[0].URL+"#1", resp.Header.Get("X-Warmpath-Worker"))

		for _, bad := range []string{"2", "x"} {
			resp, got = h.Do(http.MethodPost, h.Base+path, plain, "X-Data-Parallel-Rank", bad)
			assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
		}
	}
	noneRunning(t, h)
}

// A rank that one half of the pairs has is none that a request can have.
func TestAskedRankOfOneHalf(t *testing.T) {
	port := requesttest.Bootstrap(t)
	half := func(mode string, ranks int) *fakeWorker {
		return newFakeWorker(t, requesttest.HalfInfo(mode, ranks, port))
	}
	h := start(t, []*fakeWorker{half("prefill", 2), half("decode", 1)})
	resp, got := h.Do(http.MethodPost, h.Base+"/generate", idsBody, "X-Data-Parallel-Rank", "1")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
	assert.Contains(t, got, "only data-parallel rank is 0")
}

// The prefill worker's rank is the router's choice, with one rank too.
func TestPairOverwritesClientsPrefillRank(t *testing.T) {
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d)
	resp, got := h.Post("/generate", `{"disagg_prefill_dp_rank":5,"input_ids":[1]}`)
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	var b pairBody
	require.NoError(t, json.Unmarshal([]byte(d[0].LastBody()), &b))
	require.NotNil(t, b.PrefillRank)
	assert.Zero(t, *b.PrefillRank)
	noneRunning(t, h)
}

// Engines choose the rank of a request that generates nothing. The answer names none.
func TestNoRankIsNamedWhereTheEngineChooses(t *testing.T) {
	w := newFakeWorker(t, info(2))
	h := start(t, []*fakeWorker{w})
	for path, body := range map[string]string{
		"/v1/embeddings": `{"model":"tiny","input":"x"}`, "/v1/rerank": `{"query":"x","documents":["y"]}`,
		"/rerank": `{"query":"x","documents":["y"]}`, "/v1/score": `{"query":"x","items":["y"]}`,
		"/v1/classify": `{"model":"tiny","input":"x"}`, "/classify": `{"text":"x"}`, "/encode": `{"text":"x"}`,
		"/v1/tokenize": `{"model":"tiny","prompt":"x"}`, "/v1/messages/count_tokens": `{"model":"tiny","messages":[]}`,
	} {
		w.Answers(path, `{"data":[]}`)
		resp, got := h.Post(path, body)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		assert.Equal(t, w.URL, resp.Header.Get("X-Warmpath-Worker"), path)
		w.On(path, func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, `{"error":{}}`, http.StatusBadRequest) })
		resp, _ = h.Post(path, body)
		assert.Equal(t, w.URL, resp.Header.Get("X-Warmpath-Worker"), path)
		resp, got = h.Do(http.MethodPost, h.Base+path, body, "X-Data-Parallel-Rank", "2")
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, got)
		assert.Contains(t, got, "0 to 1", path)
	}
}
