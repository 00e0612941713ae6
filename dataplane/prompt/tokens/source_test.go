package tokens_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/leaktest"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/radix"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// worker is a Fetcher that answers each prompt with the bytes of its body as ids.
type worker struct {
	mu     sync.Mutex
	bodies []string // guarded by mu
	answer func(ctx context.Context, body string) (int, string, error)
}

func (w *worker) Fetch(ctx context.Context, deadline time.Time, _, path string, parts [][]byte, room func(int) []byte) (int, []byte, error) {
	body := bytes.Join(parts, nil)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	w.mu.Lock()
	w.bodies = append(w.bodies, string(body))
	w.mu.Unlock()
	if path != "/v1/tokenize" {
		return 500, nil, fmt.Errorf("path %q", path)
	}
	if w.answer == nil {
		return 200, in(room, idsAnswer(string(body))), nil
	}
	status, answer, err := w.answer(ctx, string(body))
	return status, in(room, answer), err
}

// in returns an answer in memory that was lent for it, or without that, as one of which the length
// is not known.
func in(room func(int) []byte, answer string) []byte {
	if len(answer)%2 == 0 {
		return []byte(answer)
	}
	return append(room(len(answer))[:0], answer...)
}

func (w *worker) calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bodies)
}

func idsOf(body string) []uint32 {
	ids := make([]uint32, len(body))
	for i := range ids {
		ids[i] = uint32(body[i])
	}
	return ids
}

func idsAnswer(body string) string {
	ids, _ := json.Marshal(idsOf(body))
	return fmt.Sprintf(`{"tokens":%s,"count":%d,"max_model_len":8192}`, ids, len(body))
}

func newSource(tb testing.TB, cfg tokens.Config) *tokens.Source {
	tb.Helper()
	s, err := tokens.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func parse(tb testing.TB, api openai.API, body string) *openai.Request {
	tb.Helper()
	var r openai.Request
	if err := r.Parse(api, []byte(body)); err != nil {
		tb.Fatal(err)
	}
	return &r
}

func prompt(tb testing.TB, text string) *openai.Request {
	tb.Helper()
	return parse(tb, openai.APICompletions, `{"model":"m","prompt":"`+text+`"}`)
}

// TestTokensOfThePrompt: the worker is asked for what the template and the tokenizer read, and no more
// once a prompt has come twice.
func TestTokensOfThePrompt(t *testing.T) {
	tests := []struct {
		name, body, want string
		api              openai.API
	}{
		{"prompt", `{"max_tokens":4,"prompt":"h\u00e9","model":"m"}`, `{"model":"m","prompt":"h\u00e9"}`, openai.APICompletions},
		{"batch", `{"prompt":[ "a", "b"]}`, `{"prompt":"a"}`, openai.APICompletions},
		{"generate", `{"text":"x","stream":true}`, `{"prompt":"x"}`, openai.APIGenerate},
		{
			"chat", `{"stream":true,"tools":[{"a": 1}],"messages":[ {"role":"user"}],"model":"m","task":"query","chat_template_kwargs":{"t":1}}`,
			`{"model":"m","messages":[ {"role":"user"}],"tools":[{"a": 1}],"chat_template_kwargs":{"t":1},"task":"query"}`, openai.APIChat,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := &worker{}
			s := newSource(t, tokens.Config{Fetch: w})
			for range 4 {
				p, err := s.Prompt(nil, "http://a", parse(t, tt.api, tt.body))
				if err != nil || !slices.Equal(p.IDs, idsOf(tt.want)) {
					t.Fatalf("Prompt = %v, %v, want the ids of %s (asked %q)", p.IDs, err, tt.want, w.bodies)
				}
			}
			if w.calls() != 2 {
				t.Errorf("asked %d times, want 2", w.calls())
			}
			if st := s.Stats(); st.Hits != 2 || st.Misses != 2 || st.Entries != 1 || st.Bytes < int64(4*len(tt.want)) {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestTokensKeysDiffer(t *testing.T) {
	w := &worker{}
	s := newSource(t, tokens.Config{Fetch: w})
	bodies := []string{
		`{"model":"m","messages":[{}]}`, `{"model":"n","messages":[{}]}`, `{"messages":[{}]}`,
		`{"model":"m","messages":[{}],"tools":[]}`, `{"model":"m","messages":[{}],"tool_choice":[]}`,
		`{"model":"m","messages":[{}],"chat_template_kwargs":{}}`, `{"model":"m","messages":[{}],"reasoning_effort":"low"}`,
		`{"model":"m","messages":[{},{}]}`, `{"model":"m","messages":[{}],"continue_final_message":true}`,
	}
	for i, b := range bodies {
		if _, err := s.Prompt(nil, "http://a", parse(t, openai.APIChat, b)); err != nil {
			t.Fatal(err)
		}
		if w.calls() != i+1 {
			t.Errorf("%s: taken for an earlier prompt", b)
		}
	}
}

// TestKeyOfLongPrompts: each byte counts, wherever it stands.
func TestKeyOfLongPrompts(t *testing.T) {
	w := &worker{}
	s := newSource(t, tokens.Config{Fetch: w})
	text := []byte(strings.Repeat("x", 5000))
	if _, err := s.Prompt(nil, "http://a", prompt(t, string(text))); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(text); i += 499 {
		text[i] = 'y'
		if _, err := s.Prompt(nil, "http://a", prompt(t, string(text))); err != nil {
			t.Fatal(err)
		}
		text[i] = 'x'
	}
	if w.calls() != 12 {
		t.Errorf("asked %d times, want 12", w.calls())
	}
}

// TestPromptHashes follows the block size: hashes of another block size are computed again, once.
func TestPromptHashes(t *testing.T) {
	x, size := radix.New(radix.Config{Seed: 1}), 0
	w := &worker{}
	s := newSource(t, tokens.Config{Fetch: w, Index: x, BlockSize: func() int { return size }})
	req := prompt(t, strings.Repeat("x", 1000))
	if _, err := s.Prompt(nil, "http://a", req); err != nil {
		t.Fatal(err)
	}
	var before int64
	for _, size = range []int{0, 16, 64, 1, 16} {
		var last tokens.Prompt
		for range 2 {
			p, err := s.Prompt(nil, "http://a", req)
			if err != nil || p.Block != size || !slices.Equal(p.Hashes, x.AppendHashes(nil, p.IDs, size)) {
				t.Fatalf("block size %d: %d hashes of blocks of %d, %v", size, len(p.Hashes), p.Block, err)
			}
			if last.Hashes != nil && &last.Hashes[0] != &p.Hashes[0] {
				t.Errorf("block size %d: hashed again", size)
			}
			last = p
		}
		if size == 0 {
			before = s.Stats().Bytes
		} else if got, want := s.Stats().Bytes-before, 8*int64(len(last.IDs)/size); got != want {
			t.Errorf("block size %d: hashes take %d bytes, want %d", size, got, want)
		}
	}
	if w.calls() != 2 {
		t.Errorf("asked %d times, want 2", w.calls())
	}
}

func TestTokensWithoutAsking(t *testing.T) {
	w := &worker{}
	s := newSource(t, tokens.Config{Fetch: w})
	if p, err := s.Prompt(nil, "http://a", parse(t, openai.APIGenerate, `{"input_ids":[4,5]}`)); err != nil || len(p.IDs) != 2 {
		t.Errorf("ids in the body: %v, %v", p.IDs, err)
	}
	image := `{"messages":[{"content":[{"type":"image_url"}]}]}`
	if _, err := s.Prompt(nil, "http://a", parse(t, openai.APIChat, image)); !errors.Is(err, tokens.ErrNotText) {
		t.Errorf("image: %v, want ErrNotText", err)
	}
	if _, err := s.Prompt(nil, "http://a", parse(t, openai.APIOther, `{"input":"x"}`)); !errors.Is(err, tokens.ErrUnavailable) {
		t.Errorf("embeddings: %v, want ErrUnavailable", err)
	}
	if w.calls() != 0 {
		t.Errorf("asked %d times, want 0", w.calls())
	}
	if _, err := tokens.New(tokens.Config{}); err == nil {
		t.Error("New without a fetcher gave no error")
	}
}

func TestTokensSharesAFetch(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := &worker{answer: func(_ context.Context, body string) (int, string, error) {
			<-release
			return 200, idsAnswer(body), nil
		}}
		s := newSource(t, tokens.Config{Fetch: w})
		req := prompt(t, "same")
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if p, err := s.Prompt(nil, "http://a", req); err != nil || len(p.IDs) == 0 {
					t.Errorf("Prompt = %v, %v", p.IDs, err)
				}
			})
		}
		synctest.Wait()
		gone := make(chan struct{})
		close(gone)
		if _, err := s.Prompt(gone, "http://a", req); !errors.Is(err, tokens.ErrUnavailable) {
			t.Errorf("a caller that left got %v", err)
		}
		close(release)
		wg.Wait()
		if st := s.Stats(); w.calls() != 1 || st.Misses != 1 || st.Shared != 50 {
			t.Errorf("asked %d times, stats %+v", w.calls(), st)
		}
	})
}

func TestTokensDeadline(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		w := &worker{answer: func(ctx context.Context, _ string) (int, string, error) {
			<-ctx.Done()
			return 0, "", ctx.Err()
		}}
		s := newSource(t, tokens.Config{Fetch: w})
		start := time.Now()
		_, err := s.Prompt(nil, "http://a", prompt(t, "x"))
		if !errors.Is(err, tokens.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Prompt = %v, want ErrUnavailable and the deadline", err)
		}
		if d := time.Since(start); d != 500*time.Millisecond {
			t.Errorf("waited %v, want 500ms", d)
		}
	})
}

func TestTokensFailures(t *testing.T) {
	tests := []struct {
		name   string
		status int
		answer string
		err    error
		want   error
		asks   int // of 10 prompts, one each 100 ms
	}{
		{"lacks the route", 404, `{"detail":"Not Found"}`, nil, tokens.ErrUnsupported, 1},
		{"refuses", 400, `{}`, nil, tokens.ErrUnavailable, 10},
		{"breaks", 500, ``, nil, tokens.ErrUnavailable, 3},
		{"is gone", 0, ``, errors.New("connection refused"), tokens.ErrUnavailable, 3},
		{"answers nonsense", 200, `{"tokens":"x"}`, nil, tokens.ErrUnavailable, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Unix(0, 0)
			w := &worker{answer: func(context.Context, string) (int, string, error) { return tt.status, tt.answer, tt.err }}
			s := newSource(t, tokens.Config{Fetch: w, Now: func() time.Time { return now }})
			for i := range 10 {
				_, err := s.Prompt(nil, "http://a", prompt(t, strconv.Itoa(i)))
				if !errors.Is(err, tt.want) && !errors.Is(err, tokens.ErrPaused) {
					t.Errorf("Prompt = %v, want %v", err, tt.want)
				}
				now = now.Add(100 * time.Millisecond)
			}
			if w.calls() != tt.asks {
				t.Errorf("asked %d times, want %d", w.calls(), tt.asks)
			}
			if st := s.Stats(); st.Entries != 0 || st.Failures != uint64(tt.asks) {
				t.Errorf("stats %+v", st)
			}
			// After the rest the worker is asked again, and an answer clears all.
			now = now.Add(time.Minute)
			w.answer = nil
			if _, err := s.Prompt(nil, "http://a", prompt(t, "again")); err != nil {
				t.Errorf("after a minute: %v", err)
			}
		})
	}
}

func TestForget(t *testing.T) {
	w := &worker{answer: func(context.Context, string) (int, string, error) { return 404, "", nil }}
	s := newSource(t, tokens.Config{Fetch: w})
	for range 3 {
		_, _ = s.Prompt(nil, "http://a", prompt(t, "x"))
		s.Forget("http://a")
	}
	if w.calls() != 3 {
		t.Errorf("asked %d times, want 3", w.calls())
	}
}

func TestCacheIsBounded(t *testing.T) {
	const limit = 256 << 10
	w := &worker{}
	s := newSource(t, tokens.Config{Fetch: w, MaxBytes: limit})
	pass := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			for _, text := range []string{fmt.Sprintf("%d %s", i, strings.Repeat("x", i%300)), "0 "} {
				if _, err := s.Prompt(nil, "http://a", prompt(t, text)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	pass(0, 2000)
	if st := s.Stats(); st.Entries > 2 {
		t.Errorf("stats %+v, want next to nothing of what came once", st)
	}
	pass(0, 2000)
	st := s.Stats()
	if st.Bytes > limit || st.Bytes < limit*9/10 || st.Evicted == 0 || st.Entries+int(st.Evicted) < 1900 {
		t.Errorf("stats %+v, want %d bytes", st, limit)
	}
	pass(2000, 6000)
	if after := s.Stats(); after.Evicted > st.Evicted+20 {
		t.Errorf("%d were evicted for prompts that came once", after.Evicted-st.Evicted)
	}
	before := w.calls()
	_, _ = s.Prompt(nil, "http://a", prompt(t, "0 "))
	if w.calls() != before {
		t.Error("the prompt in constant use was evicted")
	}
	// A prompt above the bound is answered, and not kept.
	huge := prompt(t, strings.Repeat("y", limit))
	for range 2 {
		if p, err := s.Prompt(nil, "http://a", huge); err != nil || len(p.IDs) < limit {
			t.Errorf("huge: %d ids, %v", len(p.IDs), err)
		}
	}
	if w.calls() != before+2 {
		t.Errorf("huge: asked %d times, want 2", w.calls()-before)
	}
}

func TestFetcherPanicFreesWaiters(t *testing.T) {
	w := &worker{answer: func(context.Context, string) (int, string, error) { panic("fetcher") }}
	s := newSource(t, tokens.Config{Fetch: w})
	for range 2 { // the second would wait forever for the first fetch
		func() {
			defer func() { _ = recover() }()
			_, _ = s.Prompt(nil, "http://a", prompt(t, "x"))
		}()
	}
	if w.calls() != 2 {
		t.Errorf("asked %d times, want 2", w.calls())
	}
}

func TestConcurrentUse(t *testing.T) {
	s := newSource(t, tokens.Config{Fetch: &worker{}, MaxBytes: 64 << 10})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 400 {
				text := strconv.Itoa((g*31 + i*7) % 97)
				want := idsOf(`{"model":"m","prompt":"` + text + `"}`)
				if p, err := s.Prompt(nil, "http://a", prompt(t, text)); err != nil || !slices.Equal(p.IDs, want) {
					t.Errorf("Tokens(%s) = %v, %v", text, p.IDs, err)
				}
				_ = s.Stats()
			}
		})
	}
	wg.Wait()
}
