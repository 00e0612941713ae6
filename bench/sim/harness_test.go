package sim

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// fasthttp runs one clock for the Date header of all servers of a process, without an end.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// fast is the configuration of a worker with hardly any service time.
func fast() Config {
	return Config{
		Model: "tiny", PageSize: 4, CachePages: 1024, MaxRunning: 8, ContextLength: 2048,
		TimeScale: 1000,
	}
}

// startWorker runs a worker until the test ends.
func startWorker(t *testing.T, cfg Config) *Worker {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return w
}

// reply is a worker's answer.
type reply struct {
	status int
	kind   string // content type
	body   []byte
}

// send sends one request; header may be nil.
func send(t *testing.T, w *Worker, method, path, body string, header map[string]string) reply {
	t.Helper()
	r, err := trySend(w, method, path, body, header)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func trySend(w *Worker, method, path, body string, header map[string]string) (reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, w.URL()+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header.Get("Content-Type"), b}, err
}

func post(t *testing.T, w *Worker, path, body string) reply {
	t.Helper()
	return send(t, w, http.MethodPost, path, body, nil)
}

func get(t *testing.T, w *Worker, path string) reply {
	t.Helper()
	return send(t, w, http.MethodGet, path, "", nil)
}

// decode reads a JSON answer of status 200.
func decode[T any](t *testing.T, r reply) (v T) {
	t.Helper()
	if r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	if err := json.Unmarshal(r.body, &v); err != nil {
		t.Fatalf("%v in %s", err, r.body)
	}
	return v
}

// events splits an event stream into the data of its events.
func events(body []byte) (out []string) {
	s := bufio.NewScanner(bytes.NewReader(body))
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			out = append(out, data)
		}
	}
	return out
}

// generated holds the fields of an answer of /generate that tests read.
type generatedAnswer struct {
	Text string   `json:"text"`
	IDs  []uint32 `json:"output_ids"`
	Meta struct {
		ID     string `json:"id"`
		Finish struct {
			Type string `json:"type"`
		} `json:"finish_reason"`
		Prompt int  `json:"prompt_tokens"`
		Answer int  `json:"completion_tokens"`
		Cached int  `json:"cached_tokens"`
		Rank   *int `json:"dp_rank"`
	} `json:"meta_info"`
}

// generateBody is a body for /generate.
func generateBody(ids []uint32, answer int, more string) string {
	return fmt.Sprintf(`{"input_ids":%s,"sampling_params":{"max_new_tokens":%d,"ignore_eos":true}%s}`,
		appendIDs(nil, ids), answer, more)
}

// sequence returns n token ids from first on.
func sequence(first uint32, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = first + uint32(i)
	}
	return ids
}
