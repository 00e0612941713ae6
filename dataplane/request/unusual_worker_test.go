package request_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
)

// vocabularyOf1000 answers as SGLang does when its vocabulary size is asked for.
func vocabularyOf1000(w *fakeWorker) {
	w.On("/generate", func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"logit_bias":{"-1":0}`) {
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, `{"error":{"message":"logit_bias must has keys in [0, 999], got -1."}}`)
			return
		}
		_, _ = io.WriteString(rw, idsReply)
	})
}

// TestVocabularyLimitsOnlyItsModel: the workers of one of two models do not report its
// vocabulary size.
func TestVocabularyLimitsOnlyItsModel(t *testing.T) {
	one := newFakeWorker(t, `{"version":"0.5.23","model_path":"/no/such","served_model_name":"tiny","page_size":4}`)
	vocabularyOf1000(one)
	two := newFakeWorker(t, `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	two.Answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	two.Answers("/v1/completions", `{"id":"x","choices":[{"text":"a"}]}`)
	one.Answers("/v1/completions", `{"id":"x","choices":[{"text":"a"}]}`)
	h := start(t, []*fakeWorker{one, two})
	require.Equal(t, 1000, h.Worker(one).Info().Vocabulary)
	for body, want := range map[string]int{
		`{"model":"tiny","prompt":[999]}`:   http.StatusOK,
		`{"model":"tiny","prompt":[1000]}`:  http.StatusBadRequest,
		`{"model":"dear","prompt":[50000]}`: http.StatusOK,
	} {
		resp, text := h.Post("/v1/completions", body)
		assert.Equal(t, want, resp.StatusCode, "%s %s", body, text)
	}
}

// closing is a proxy in front of a worker that closes each connection after one answer.
func closing(t *testing.T, backend string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				req, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				out, _ := http.NewRequest(req.Method, backend+req.URL.String(), req.Body)
				out.ContentLength = req.ContentLength
				resp, err := client.Do(out)
				if err != nil {
					return
				}
				defer resp.Body.Close()
				resp.Close = false // it does not say so
				_ = resp.Write(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestWorkerBehindAClosingProxy: no request is lost.
func TestWorkerBehindAClosingProxy(t *testing.T) {
	w := newFakeWorker(t, info(1))
	var probes atomic.Int64
	w.On("/server_info", func(rw http.ResponseWriter, _ *http.Request) { probes.Add(1); _, _ = io.WriteString(rw, info(1)) })
	w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, idsReply)
	})
	front := &fakeWorker{URL: closing(t, w.URL)}
	h := start(t, []*fakeWorker{front})
	for range 50 {
		resp, body := h.Post("/generate", idsBody)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
	}
	t.Log("server_info", probes.Load(), "breaker", h.Worker(front).Breaker.Opened())
}

// TestUnusualStreams: streams of unusual form reach the client byte by byte.
func TestUnusualStreams(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10)
	for name, s := range map[string][]string{
		"no end":       {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n", "data: [DONE]"},
		"one line end": {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n", "data: [DONE]\n"},
		"crlf":         {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\r\n\r", "\ndata: [DO", "NE]\r\n\r\n"},
		"cr":           {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\r\r", "data: [DONE]\r\r"},
		"comment":      {": ping\n\n", ": ping\n", "\n", "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n", ": ping\n\n", "data: [DONE]\n\n"},
		"long":         {"data: {\"text\":\"" + long[:70<<10], long, "\"}\n", "\n", "data: [DONE]\n\n"},
		"long second":  {"data: {\"text\":\"\"}\n\n", "data: {\"text\":\"" + long[:70<<10], long, "\"}\r\n", "\r\n", "data: [DO", "NE]\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorker(t, info(1))
			want := strings.Join(s, "")
			w.On("/generate", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				for _, p := range s {
					_, _ = io.WriteString(rw, p)
					rw.(http.Flusher).Flush()
					time.Sleep(5 * time.Millisecond)
				}
			})
			h := start(t, []*fakeWorker{w})
			resp, got := h.Post("/generate", `{"input_ids":[1,2,3],"stream":true}`)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.True(t, got == want, "%d bytes of %d: %.200q", len(got), len(want), got)
		})
	}
}

// TestUnusualBodies: a body that may end the worker is refused with its reason, and any other one reaches the worker.
func TestUnusualBodies(t *testing.T) {
	w := newFakeWorker(t, `{"version":"0.5.23","model_path":"/no/such","served_model_name":"tiny","page_size":4}`)
	vocabularyOf1000(w)
	w.Answers("/v1/completions", `{"id":"x","choices":[{"text":"a"}]}`)
	w.Answers("/v1/embeddings", `{"data":[]}`)
	h := start(t, []*fakeWorker{w})
	for _, x := range []struct{ path, body, refused string }{
		{"/generate", `{"input_ids":[1.0,1e9]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[1e3]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[999.0]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[[]]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[[],[1000]]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[[1],["1000"]]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[[[1000]]]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":["1000"]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[-1]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[5,999]}`, ""},
		{"/generate", `{"input_ids":[5,1000]}`, "0 to 999"},
		{"/generate", `{"input_ids":[1],"input_ids":[1000]}`, "0 to 999"},
		{"/generate", `{"input_ids":[1000],"input_ids":null,"text":"a"}`, ""},
		{"/generate", `{"input_ids":1000}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[true,1000]}`, `"param":"input_ids"`},
		{"/generate", `{"input_ids":[99999999999999999999]}`, `"param":"input_ids"`},
		{"/generate", `{"text":"a","custom_labels":null}`, ""},
		{"/generate", `{"text":"a","custom_labels":{ }}`, `"param":"custom_labels"`},
		{"/generate", `{"text":"a","sampling_params":[]}`, ""},
		{"/generate", `{"text":"a","sampling_params":[null,{"top_k":-1}]}`, `"param":"sampling_params"`},
		{"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"x"}],"input_ids":[1000]}`, "0 to 999"},
		{"/v1/completions", `{"model":"tiny","prompt":[[5],[4000000000]]}`, "0 to 999"},
		{"/v1/completions", `{"model":"tiny","prompt":[1000.0]}`, `"param":"prompt"`},
		{"/v1/completions", `{"model":"tiny","prompt":[[1],[1e3]]}`, `"param":"prompt"`},
		{"/v1/completions", `{"model":"tiny","prompt":["a",[1000]]}`, `"param":"prompt"`},
		{"/v1/completions", `{"model":"tiny","prompt":[]}`, `"param":"prompt"`},
		{"/v1/embeddings", `{"model":"tiny","input":[["1000"]]}`, "0 to 999"},
		{"/v1/embeddings", `{"model":"tiny","input":[[1e3]]}`, "0 to 999"},
		{"/v1/embeddings", `{"model":"tiny","input":["999999 is a text"]}`, ""},
		{"/v1/embeddings", `{"model":"tiny","input":"1000"}`, ""},
	} {
		before := len(w.Bodies())
		resp, text := h.Post(x.path, x.body)
		if x.refused == "" {
			assert.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", x.body, text)
			assert.Len(t, w.Bodies(), before+1, x.body)
			continue
		}
		assert.Equal(t, http.StatusBadRequest, resp.StatusCode, "%s: %s", x.body, text)
		assert.Contains(t, text, x.refused, x.body)
		assert.Len(t, w.Bodies(), before, x.body)
	}
}

// TestNotFoundRechecksTheWorker: a 404 shows that the server at the worker's URL has another model by
// now. No probe's connection ends, and no client lists models, that would show it sooner.
func TestNotFoundRechecksTheWorker(t *testing.T) {
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withWorkers(func(c *worker.Config) { c.LoadEvery = -1 }))
	w.Answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	w.Answers("/server_info", `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	w.On("/v1/chat/completions", http.NotFound)
	resp, _ := h.Post("/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.Eventually(t, func() bool { return h.Worker(w).Info().Model() == "dear" }, patience, tick)
}

// closings are the ways in which servers, and proxies in front of them, end their connections.
var closings = map[string]struct {
	head  string // of an answer, without its length
	sized bool
	end   func(c *net.TCPConn)
}{
	"says that it closes":     {"HTTP/1.1 200 OK\r\nConnection: close\r\n", true, func(c *net.TCPConn) { _ = c.Close() }},
	"closes for the length":   {"HTTP/1.1 200 OK\r\nConnection: close\r\n", false, func(c *net.TCPConn) { _ = c.Close() }},
	"closes unannounced":      {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n", true, func(c *net.TCPConn) { _ = c.Close() }},
	"HTTP/1.0":                {"HTTP/1.0 200 OK\r\n", false, func(c *net.TCPConn) { _ = c.Close() }},
	"HTTP/1.0 with a length":  {"HTTP/1.0 200 OK\r\n", true, func(c *net.TCPConn) { _ = c.Close() }},
	"HTTP/1.0 that stays":     {"HTTP/1.0 200 OK\r\n", true, nil},
	"closes its sending side": {"HTTP/1.1 200 OK\r\n", true, func(c *net.TCPConn) { _ = c.CloseWrite() }},
	"says one and does other": {"HTTP/1.1 200 OK\r\nConnection: close\r\n", true, nil},
}

// TestWorkersThatEndTheirConnections: however all workers, whole or of pairs, end the connections of
// their answers, each request has its answer, and no breaker has a fault.
func TestWorkersThatEndTheirConnections(t *testing.T) {
	t.Parallel()
	d := dialects["chat"]
	for name, closing := range closings {
		for _, pairs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pairs=%t", name, pairs), func(t *testing.T) {
				t.Parallel()
				answers := func(rw http.ResponseWriter, stream bool) {
					conn, _, err := http.NewResponseController(rw).Hijack()
					if err != nil {
						return
					}
					tcp, _ := conn.(*net.TCPConn)
					t.Cleanup(func() { _ = tcp.Close() })
					mime, body := "application/json", d.reply
					if stream {
						mime, body = "text/event-stream", d.begin+d.rest
					}
					head := closing.head + "Content-Type: " + mime + "\r\n"
					if closing.sized {
						head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
					}
					_, _ = io.WriteString(tcp, head+"\r\n"+body)
					if closing.end != nil {
						closing.end(tcp)
					}
				}
				var workers []*fakeWorker
				serves := func(w *fakeWorker, meets func(r *http.Request, b *pairBody) bool) {
					w.On("/abort_request", noAborts)
					w.On(d.path, func(rw http.ResponseWriter, r *http.Request) {
						body, _ := io.ReadAll(r.Body)
						var b pairBody
						if json.Unmarshal(body, &b) == nil && meets(r, &b) {
							answers(rw, b.Stream)
						}
					})
					workers = append(workers, w)
				}
				if pairs {
					p, q := newPair(t, 2, 2, 1)
					for _, l := range append(p, q...) {
						serves(l.fakeWorker, func(r *http.Request, b *pairBody) bool { return l.waits(r, l.arrives(b)) })
					}
				} else {
					for range 2 {
						serves(newFakeWorker(t, info(1)), func(*http.Request, *pairBody) bool { return true })
					}
				}
				h := start(t, workers, trusting(t), withConfig(func(c *request.Config) { c.FirstByteTimeout = patience }))
				for _, stream := range []bool{false, true} {
					assert.Equal(t, healthyClients*closingEach, askWell(h, &d, stream, closingEach))
				}
				h.AwaitIdle()
				for i, w := range workers {
					assert.Zero(t, h.Worker(w).Breaker.Faults(), "worker %d", i)
					assert.True(t, h.Worker(w).Breaker.Lets(time.Now().UnixNano()))
				}
			})
		}
	}
}
