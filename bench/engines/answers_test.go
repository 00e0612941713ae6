//go:build engines

package engines_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
)

// twin is a second worker of one engine: what it is sent, the engine answers, until it fails fast.
func twin(t *testing.T, e *engine, fails func(rw http.ResponseWriter) bool) *engine {
	t.Helper()
	at, err := url.Parse(e.url)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(at)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !fails(rw) {
			forward.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(s.Close)
	return &engine{index: e.index, url: s.URL, ports: e.ports}
}

// mistakes are requests that the router forwards and the engine refuses, each in its own form.
func mistakes() map[string][2]string {
	long := strings.TrimSuffix(strings.Repeat("7,", 3000), ",")
	text := strings.Repeat("word ", 3000)
	all := map[string][2]string{}
	for _, stream := range []string{"false", "true"} {
		tail := `,"stream":` + stream + `}`
		all["generate too long "+stream] = [2]string{"/generate", `{"input_ids":[` + long + `]` + tail}
		all["generate bad temperature "+stream] = [2]string{"/generate", `{"text":"x","sampling_params":{"temperature":-1}` + tail}
		all["completions too long "+stream] = [2]string{"/v1/completions", `{"model":"tiny","prompt":"` + text + `"` + tail}
		all["completions bad type "+stream] = [2]string{"/v1/completions", `{"model":"tiny","prompt":"x","max_tokens":"many"` + tail}
		all["chat too long "+stream] = [2]string{"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"` + text + `"}]` + tail}
		all["messages too long "+stream] = [2]string{"/v1/messages", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"` + text + `"}]` + tail}
	}
	return all
}

// answersAreJudged: the forms in which a real engine refuses are known for what they are, pass unchanged, and open no
// breaker; a worker that fails faster than the engine computes draws no traffic.
func (p *proof) answersAreJudged(t *testing.T) {
	e := p.engines[0]
	var failing atomic.Pointer[func(http.ResponseWriter)]
	var failed atomic.Int64
	other := twin(t, e, func(rw http.ResponseWriter) bool {
		f := failing.Load()
		if f != nil {
			failed.Add(1)
			(*f)(rw)
		}
		return f != nil
	})
	start := func(t *testing.T) *router { // whose breakers are closed
		t.Helper()
		return startRouter(t, p.keeper, p.dir, p.binary, "kv", []*engine{e, other})
	}
	t.Run("mistakes", func(t *testing.T) { judgeMistakes(t, e, start(t)) })
	faults := map[string]func(http.ResponseWriter){
		"401": func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusUnauthorized) },
		"429": func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusTooManyRequests) },
		"error event": func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\ndata: [DONE]\n\n")
		},
	}
	for name, f := range faults {
		t.Run("fails fast with "+name, func(t *testing.T) {
			r := start(t)
			failing.Store(&f)
			defer failing.Store(nil)
			failed.Store(0)
			bad := askMany(t, r, 48)
			t.Logf("%d of 48 failed, the bad worker was asked %d times", bad, failed.Load())
			if bad > 4 || failed.Load() == 0 {
				t.Errorf("%d of 48 requests failed, and the bad worker was asked %d times: want at most 4, and at least once", bad, failed.Load())
			}
		})
	}
}

// askMany sends streams in a closed loop of four and returns how many did not end well.
func askMany(t *testing.T, r *router, n int) int64 {
	t.Helper()
	var next, bad atomic.Int64
	var wg sync.WaitGroup
	for client := range 4 {
		rnd := rand.New(rand.NewPCG(uint64(client), 16))
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if o := generate(t.Context(), r.url, someIDs(rnd), 4, true); o.err != nil {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return bad.Load()
}

func judgeMistakes(t *testing.T, e *engine, r *router) {
	t.Helper()
	for name, m := range mistakes() {
		status, mime, own := postRaw(t, e.url+m[0], m[1])
		t.Logf("%s: %d %s %.200q", name, status, mime, own)
		if strings.HasPrefix(mime, "text/event-stream") {
			if v, f := disagg.JudgeStream(apiAt(m[0]), own, true); v != disagg.Failed || f.Status < 400 || f.Status > 499 {
				t.Errorf("%s: %d, %+v of %.300q, want a client's error", name, v, f, own)
			}
		} else if status < 400 || status > 499 {
			t.Errorf("%s: status %d: %s", name, status, own)
		}
		for range 3 {
			through, _, got := postRaw(t, r.url+m[0], m[1])
			if through != status || len(got) != len(own) { // ids in them differ
				t.Errorf("%s: through the router %d %.300q, from the engine %d %.300q", name, through, got, status, own)
			}
		}
	}
	answer, err := http.Get(r.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte("warmpath_worker_breaker_opened_total")) && !bytes.HasSuffix(line, []byte(" 0\n")) {
			t.Errorf("mistakes of clients have opened a breaker: %s", line)
		}
	}
}

func postRaw(t *testing.T, url, body string) (status int, mime string, answer []byte) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(fmt.Errorf("cannot post to %s: %w", url, err))
	}
	defer resp.Body.Close()
	answer, _ = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Content-Type"), answer
}

// apiAt returns the API at a path.
func apiAt(path string) openai.API {
	switch path {
	case "/v1/chat/completions":
		return openai.APIChat
	case "/v1/completions":
		return openai.APICompletions
	case "/v1/messages":
		return openai.APIMessages
	}
	return openai.APIGenerate
}
