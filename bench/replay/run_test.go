package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/trace"
)

// fake answers as an SSE server of any of the APIs would, with 96 of each prompt's tokens
// cached.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	prompts []int              // lengths, in the order of arrival
	seen    []seen             // the same
	fail    func(n int) string // how the n-th answer fails; nil: none does
}

func newFake(t *testing.T, fail func(n int) string) *fake {
	t.Helper()
	f := &fake{fail: fail}
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	var body struct {
		InputIDs []int `json:"input_ids"`
		Prompt   []int `json:"prompt"`
		Messages []struct{ Content string }
		Metadata struct {
			UserID string `json:"user_id"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n := len(body.InputIDs) + len(body.Prompt)
	for _, m := range body.Messages {
		n += len(strings.Fields(m.Content))
	}
	f.mu.Lock()
	f.prompts = append(f.prompts, n)
	at := len(f.seen)
	f.seen = append(f.seen, seen{tokens: n, session: body.Metadata.UserID + r.Header.Get("X-Session-ID"), came: time.Now()})
	mode := ""
	if f.fail != nil {
		mode = f.fail(len(f.prompts))
	}
	f.mu.Unlock()
	if mode == "status" {
		http.Error(w, `{"error":{"message":"full"}}`, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("X-Warmpath-Worker", f.URL)
	w.Header().Set("X-Warmpath-Overlap", fmt.Sprintf("6/%d", n/16))
	w.Header().Set("Content-Type", "text/event-stream")
	// The client may have the whole answer as soon as it is written.
	f.mu.Lock()
	f.seen[at].answered = time.Now()
	f.mu.Unlock()
	f.stream(w, r.URL.Path, n, mode)
}

// seen is a request as the server saw it.
type seen struct {
	tokens         int
	session        string
	came, answered time.Time
}

func (f *fake) stream(w http.ResponseWriter, path string, n int, mode string) {
	send := func(data string) {
		fmt.Fprintf(w, "data: %s\n\n", data)
		w.(http.Flusher).Flush() // A chunk of its own for each event.
	}
	meta := fmt.Sprintf(`"meta_info":{"prompt_tokens":%d,"cached_tokens":96,"completion_tokens":2}`, n)
	switch {
	case mode == "event":
		if path == "/v1/messages" {
			send(`{"type":"error","error":{"type":"api_error","message":"decode is gone"}}`)
			send(`{"type":"message_stop"}`)
			return
		}
		send(`{"error": {"message": "decode is gone"}}`)
		send("[DONE]")
		return
	case path == "/generate":
		send(`{"text":"a",` + meta + `}`)
		send(`{"text":"ab",` + meta + `}`)
	case path == "/v1/messages":
		send(fmt.Sprintf(`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":%d,"output_tokens":0,"cache_read_input_tokens":96}}}`, n-96))
		send(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		send(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`)
		send(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}`)
		send(`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":2}}`)
		if mode != "cut" {
			send(`{"type":"message_stop"}`)
		}
		return
	case path == "/v1/completions":
		send(`{"choices":[{"text":""}],"usage":null}`)
		send(`{"choices":[{"text":"b"}],"usage":null}`)
	default:
		send(`{"choices":[{"delta":{"role":"assistant","content":""}}]}`)
		send(`{"choices":[{"delta":{"content":"b"}}]}`)
	}
	if path != "/generate" {
		send(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":96}}}`, n))
	}
	if mode != "cut" {
		send("[DONE]")
	}
}

func TestRunCountsWhatTheServerSaid(t *testing.T) {
	for _, api := range []replay.API{replay.APIGenerate, replay.APICompletions, replay.APIChat, replay.APIMessages} {
		t.Run(api.String(), func(t *testing.T) {
			f := newFake(t, nil)
			done := 0
			got, err := replay.Run(t.Context(), f.URL, made(t, 40), replay.Config{
				API: api, TimeScale: 1000, Progress: func(n int) { done = n },
			})
			if err != nil {
				t.Fatal(err)
			}
			sent := 0
			for _, n := range f.prompts {
				sent += n
			}
			if got.Requests != 40 || got.Errors != 0 || done != 40 {
				t.Fatalf("%d requests, %d errors (%s), progress %d", got.Requests, got.Errors, got.FirstError, done)
			}
			if got.PromptTokens != sent || got.HitTokens != 40*96 || got.OutputTokens != 80 {
				t.Errorf("%d prompt, %d hit, %d output tokens, want %d, %d, 80", got.PromptTokens, got.HitTokens, got.OutputTokens, sent, 40*96)
			}
			if got.Workers[f.URL] != 40 || got.Overlap.Compared != 40 || got.Overlap.Exact != 40 {
				t.Errorf("workers %v, overlap %+v, want all 40", got.Workers, got.Overlap)
			}
			if got.TTFT.Mean <= 0 || got.Latency.Mean < got.TTFT.Mean || got.Latency.Max > got.Wall {
				t.Errorf("TTFT %+v, latency %+v, wall %v", got.TTFT, got.Latency, got.Wall)
			}
		})
	}
}

// made is a trace of conversations.
func made(t *testing.T, n int) []trace.Request {
	t.Helper()
	some, err := policies.Synthetic("conversations", 1, n)
	if err != nil {
		t.Fatal(err)
	}
	return policies.Blocks(some, 512)
}

func TestRunCountsErrorsAndGoesOn(t *testing.T) {
	for _, api := range []replay.API{replay.APIGenerate, replay.APIMessages} {
		f := newFake(t, func(n int) string { return [...]string{"", "status", "event", "cut"}[n%4] })
		got, err := replay.Run(t.Context(), f.URL, made(t, 40), replay.Config{API: api, TimeScale: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if got.Requests != 40 || got.Errors != 30 || got.FirstError == "" {
			t.Errorf("%d requests, %d errors (first %q), want 40 and 30", got.Requests, got.Errors, got.FirstError)
		}
	}
}

func TestRunWithoutServer(t *testing.T) {
	// A port that no other process is given, as it might one that was just closed.
	got, err := replay.Run(t.Context(), "http://127.0.0.1:1", made(t, 3), replay.Config{TimeScale: 1e6})
	if err != nil || got.Errors != 3 || !strings.Contains(got.FirstError, "cannot connect") {
		t.Errorf("Run = %+v, %v, want 3 failed requests", got, err)
	}
}

// A second request on a kept connection must survive that the server has closed it meanwhile.
func TestRunSurvivesClosedConnections(t *testing.T) {
	f := newFake(t, nil)
	turn := replay.Turn{After: -1, Request: func() trace.Request { return trace.Request{Input: 1, Output: 1, Block: 512, IDs: []uint64{1}} }}
	next := turn
	next.After = 0 // it follows the answer, and what Progress does
	users := []replay.User{{Sessions: [][]replay.Turn{{turn, next}}}}
	got, err := replay.RunUsers(t.Context(), f.URL, users, replay.Window{For: time.Hour}, replay.Config{Progress: func(n int) {
		if n == 1 {
			f.CloseClientConnections()
		}
	}})
	if err != nil || got.Requests != 2 || got.Errors != 0 {
		t.Errorf("RunUsers = %+v, %v, want 2 requests and no errors", got, err)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	arrived := make(chan struct{}, 100)
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // The server notices a client that leaves once the body is read.
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	defer hang.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err := replay.Run(ctx, hang.URL, made(t, 100), replay.Config{TimeScale: 100})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
}

func TestRunRefuses(t *testing.T) {
	tests := []struct {
		name, url string
		cfg       replay.Config
		want      error
	}{
		{"no scheme", "127.0.0.1:80", replay.Config{}, replay.ErrURL},
		{"other scheme", "ftp://host", replay.Config{}, replay.ErrURL},
		{"no host", "http://", replay.Config{}, replay.ErrURL},
		{"time backwards", "http://h", replay.Config{TimeScale: -1}, replay.ErrConfig},
		{"no pages", "http://h", replay.Config{PageSize: -1}, replay.ErrConfig},
		{"no field", "http://h", replay.Config{Session: "a b"}, replay.ErrConfig},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := replay.Run(t.Context(), tt.url, made(t, 100), tt.cfg); !errors.Is(err, tt.want) {
				t.Errorf("Run = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestProgressPrintsTenLines(t *testing.T) {
	var out strings.Builder
	progress := replay.NewProgress(&out, 2000, "kv")
	for n := 1; n <= 2000; n++ {
		progress(n)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 10 || !strings.HasSuffix(out.String(), "kv: 2,000 of 2,000 requests answered\n") {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}
