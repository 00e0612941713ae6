//go:build engines

package engines_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// poison is a request that ends an engine without radix cache: its embeddings are of another width than the model's, which
// no router can know.
const poison = `{"rid":"%s","input_embeds":[[0.1,0.2],[0.3,0.4]],"sampling_params":{"max_new_tokens":2}}`

// endsEngines is the code of the error for a request that has ended engines.
const endsEngines = "request_ends_engines"

// killer is a row of testdata/killers.jsonl.
type killer struct {
	Name, Path, Engine string
	Body               json.RawMessage
}

// TestPoison shows that no request ends more than two engines, and none that is known ends any.
func TestPoison(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	k := newKeeper()
	binary := buildWarmpath(t, dir)
	engines := []*engine{{index: 0}, {index: 1}, {index: 2}}
	for _, e := range engines {
		e.flags = []string{"--disable-radix-cache"}
		// Where the scheduler takes more than 5 s to end, its HTTP process waits for a dump of the GPU: 60 s by default.
		e.env = []string{"SGLANG_CUDA_COREDUMP_BEFORE_CRASH_WAIT_SECS=5"}
	}
	launch(t, k, dir, engines)
	waitAll(t, engines)
	r := startRouter(t, k, dir, binary, "kv", engines, "--quarantine", "1h")
	defer r.proc.stop(5 * time.Second)
	t.Run("no cache", func(t *testing.T) { noCache(t, r) })
	_ = t.Run("known", func(t *testing.T) { knownKillers(t, r, engines) }) &&
		t.Run("ids", func(t *testing.T) { abortedIDs(t, r, engines) }) &&
		t.Run("unknown", func(t *testing.T) { unknownKiller(t, r, engines) })
}

// answerTo sends a body and returns status and answer.
func (r *router) answerTo(t *testing.T, path, body string) (status int, answer string) {
	t.Helper()
	resp, err := http.Post(r.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatalf("cannot post to %s: %v", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("cannot read the answer of %s: %v", path, err)
	}
	return resp.StatusCode, string(text)
}

// living is how many engines have not ended.
func living(engines []*engine) (n int) {
	for _, e := range engines {
		select {
		case <-e.proc.dead:
		default:
			n++
		}
	}
	return n
}

// knownKillers sends what ended an engine: the router refuses it.
func knownKillers(t *testing.T, r *router, engines []*engine) {
	t.Helper()
	raw, err := os.ReadFile("testdata/killers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		var row killer
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatalf("cannot read killers.jsonl: %v", err)
		}
		if row.Engine != "dies" && row.Engine != "hangs" {
			continue
		}
		sent++
		status, answer := r.answerTo(t, row.Path, string(row.Body))
		if status != http.StatusBadRequest || !strings.Contains(answer, "invalid_request_error") || strings.Contains(answer, endsEngines) {
			t.Fatalf("%s: the router answers %d %s, want 400 before any engine has it", row.Name, status, answer)
		}
	}
	t.Logf("%d killers refused", sent)
	status, answer := r.answerTo(t, "/generate", `{"input_ids":[5,1023],"sampling_params":{"max_new_tokens":1}}`)
	if n := living(engines); sent == 0 || status != http.StatusOK || n != len(engines) {
		t.Errorf("after %d killers %d engines live, and the largest id is answered with %d %s", sent, n, status, answer)
	}
}

// abortedIDs leaves requests whose id is written in ways that hide it: the engines stop all the same.
func abortedIDs(t *testing.T, r *router, engines []*engine) {
	t.Helper()
	for _, rid := range []string{
		`"rid":null`, `"rid":""`, `"rid":[]`, `"rid":"mine"`, `"rid":"first","rid":"last"`, `"rid":"first","rid":null`, `"\u0072id":null`,
		`"rid":"a","r\u0069d":"b"`, `"rid":"w"`,
	} {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			body := fmt.Sprintf(`{%s,"text":"a long story","sampling_params":{"max_new_tokens":%d,"ignore_eos":true}}`, rid, longGeneration)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/generate", strings.NewReader(body))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		waitRunning(t, engines, 1)
		before := decoded(t, engines)
		leave()
		took := waitRunning(t, engines, 0)
		<-gone
		made := decoded(t, engines) - before
		t.Logf("%s: idle %.2f s and %d tokens after the client left", rid, took.Seconds(), made)
		if took > abortWithin && made > abortTokens {
			t.Errorf("%s: the engines worked on for %.2f s and made %d tokens", rid, took.Seconds(), made)
		}
	}
}

// unknownKiller sends one poison again and again under new ids, among innocent requests.
func unknownKiller(t *testing.T, r *router, engines []*engine) {
	t.Helper()
	traffic := startTraffic(t.Context(), r.url)
	defer traffic.stop()
	traffic.wait(t, 10, "before the poison", func(outcome) bool { return true })
	for try := range 3 {
		status, answer := r.answerTo(t, "/generate", fmt.Sprintf(poison, fmt.Sprintf("try-%d", try)))
		t.Logf("try %d: %d %s", try, status, answer)
		if status == http.StatusOK {
			t.Errorf("the poison is answered with %d %s", status, answer)
		}
	}
	t.Logf("%d engines live", living(engines))
	if living(engines) < 1 {
		t.Fatal("no engine lives, want 1")
	}
	traffic.wait(t, 10, "after the poison", func(outcome) bool { return true })
	traffic.stop()
	for _, o := range traffic.all() {
		if o.err != nil && !o.began && !strings.Contains(o.err.Error(), endsEngines) {
			t.Errorf("an innocent request failed on %q: %v", o.worker, o.err)
		}
	}
}
