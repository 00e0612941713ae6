package request_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vocabularyOf1000 answers as SGLang does when its vocabulary size is asked for.
func (w *fakeWorker) vocabularyOf1000() {
	w.on("/generate", func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) > 0 && containsText(string(body), `"logit_bias":{"-1":0}`) {
			rw.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(rw, `{"error":{"message":"logit_bias must has keys in [0, 999], got -1."}}`)
			return
		}
		_, _ = io.WriteString(rw, idsReply)
	})
}

func containsText(s, sub string) bool {
	for i := 0; i+len(sub) <= len(s); i++ {
		if s[i:i+len(sub)] == sub {
			return true
		}
	}
	return false
}

// TestVocabularyLimitsOnlyItsModel: the workers of one of two models do not report its
// vocabulary size.
func TestVocabularyLimitsOnlyItsModel(t *testing.T) {
	one := newFakeWorker(t, `{"version":"0.5.23","model_path":"/no/such","served_model_name":"tiny","page_size":4}`)
	one.vocabularyOf1000()
	two := newFakeWorker(t, `{"version":"0.5.23","served_model_name":"dear","page_size":4}`)
	two.answers("/v1/models", `{"data":[{"id":"dear"}]}`)
	two.answers("/v1/completions", `{"id":"x","choices":[{"text":"a"}]}`)
	one.answers("/v1/completions", `{"id":"x","choices":[{"text":"a"}]}`)
	h := start(t, []*fakeWorker{one, two})
	require.Equal(t, 1000, h.at(one.url).Info().Vocabulary)
	for body, want := range map[string]int{
		`{"model":"tiny","prompt":[999]}`:   http.StatusOK,
		`{"model":"tiny","prompt":[1000]}`:  http.StatusBadRequest,
		`{"model":"dear","prompt":[50000]}`: http.StatusOK,
	} {
		resp, text := h.post("/v1/completions", body)
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
	w.on("/server_info", func(rw http.ResponseWriter, _ *http.Request) { probes.Add(1); _, _ = io.WriteString(rw, info(1)) })
	w.on("/generate", func(rw http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * time.Millisecond)
		_, _ = io.WriteString(rw, idsReply)
	})
	front := &fakeWorker{t: t, url: closing(t, w.url)}
	h := start(t, []*fakeWorker{front})
	n, bad := 0, map[string]int{}
	for end := time.Now().Add(8 * time.Second); time.Now().Before(end); n++ {
		resp, body, err := h.do(http.MethodPost, h.base+"/generate", idsBody)
		if err != nil {
			bad[err.Error()]++
		} else if resp.StatusCode != http.StatusOK {
			bad[body]++
		}
	}
	t.Log(n, bad, "server_info", probes.Load(), "breaker", h.at(front.url).Breaker.Opened())
	assert.Empty(t, bad)
}

// TestUnusualStreams: streams of unusual form reach the client byte by byte.
func TestUnusualStreams(t *testing.T) {
	long := make([]byte, 200<<10)
	for i := range long {
		long[i] = 'x'
	}
	for name, s := range map[string][]string{
		"no end":       {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n", "data: [DONE]"},
		"one line end": {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n", "data: [DONE]\n"},
		"crlf":         {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\r\n\r", "\ndata: [DO", "NE]\r\n\r\n"},
		"cr":           {"data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\r\r", "data: [DONE]\r\r"},
		"comment":      {": ping\n\n", ": ping\n", "\n", "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n", ": ping\n\n", "data: [DONE]\n\n"},
		"long":         {"data: {\"text\":\"" + string(long[:70<<10]), string(long), "\"}\n", "\n", "data: [DONE]\n\n"},
		"long second":  {"data: {\"text\":\"\"}\n\n", "data: {\"text\":\"" + string(long[:70<<10]), string(long), "\"}\r\n", "\r\n", "data: [DO", "NE]\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeWorker(t, info(1))
			want := strings.Join(s, "")
			w.on("/generate", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/event-stream")
				for _, p := range s {
					_, _ = io.WriteString(rw, p)
					rw.(http.Flusher).Flush()
					time.Sleep(5 * time.Millisecond)
				}
			})
			h := start(t, []*fakeWorker{w})
			resp, got := h.post("/generate", `{"input_ids":[1,2,3],"stream":true}`)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			require.True(t, got == want, "%d bytes of %d: %.200q", len(got), len(want), got)
		})
	}
}

// TestUnusualBodies: unusual bodies get an answer and end no worker.
func TestUnusualBodies(t *testing.T) {
	w := newFakeWorker(t, `{"version":"0.5.23","model_path":"/no/such","served_model_name":"tiny","page_size":4}`)
	w.vocabularyOf1000()
	w.answers("/v1/completions", `{"id":"x","choices":[{"text":"a"}]}`)
	w.answers("/v1/embeddings", `{"data":[]}`)
	h := start(t, []*fakeWorker{w})
	for _, x := range []struct{ path, body string }{
		{"/generate", `{"input_ids":[1.0,1e9]}`},
		{"/generate", `{"input_ids":[1e3]}`},
		{"/generate", `{"input_ids":[999.0]}`},
		{"/generate", `{"input_ids":[]}`},
		{"/generate", `{"input_ids":[[]]}`},
		{"/generate", `{"input_ids":[[],[1000]]}`},
		{"/generate", `{"input_ids":[[1],["1000"]]}`},
		{"/generate", `{"input_ids":[[[1000]]]}`},
		{"/generate", `{"input_ids":["1000"]}`},
		{"/generate", `{"input_ids":[-1]}`},
		{"/generate", `{"input_ids":[1],"input_ids":[1000]}`},
		{"/generate", `{"input_ids":[1000],"input_ids":null,"text":"a"}`},
		{"/generate", `{"input_ids":1000}`},
		{"/generate", `{"input_ids":[true,1000]}`},
		{"/generate", `{"input_ids":[99999999999999999999]}`},
		{"/generate", `{"text":"a","custom_labels":null}`},
		{"/generate", `{"text":"a","custom_labels":{ }}`},
		{"/generate", `{"text":"a","sampling_params":[]}`},
		{"/generate", `{"text":"a","sampling_params":[null,{"top_k":-1}]}`},
		{"/v1/completions", `{"model":"tiny","prompt":[1000.0]}`},
		{"/v1/completions", `{"model":"tiny","prompt":[[1],[1e3]]}`},
		{"/v1/completions", `{"model":"tiny","prompt":["a",[1000]]}`},
		{"/v1/completions", `{"model":"tiny","prompt":[]}`},
		{"/v1/embeddings", `{"model":"tiny","input":[["1000"]]}`},
		{"/v1/embeddings", `{"model":"tiny","input":[[1e3]]}`},
		{"/v1/embeddings", `{"model":"tiny","input":["999999 is a text"]}`},
		{"/v1/embeddings", `{"model":"tiny","input":"1000"}`},
	} {
		before := w.lastBody()
		w.mu.Lock()
		n := len(w.bodies)
		w.mu.Unlock()
		_ = before
		resp, text := h.post(x.path, x.body)
		w.mu.Lock()
		m := len(w.bodies)
		w.mu.Unlock()
		t.Logf("%-16s %-50s %d reached %d %.110s", x.path, x.body, resp.StatusCode, m-n, text)
	}
}
