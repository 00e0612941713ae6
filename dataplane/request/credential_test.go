package request_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/request"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
)

// keysOf returns keys with the names and limits of lines. The secret of a name is the name behind "secret-of-".
func keysOf(t *testing.T, lines ...string) *clientkey.Keys {
	t.Helper()
	var text strings.Builder
	for _, line := range lines {
		name, limits, _ := strings.Cut(line, " ")
		sum := sha256.Sum256([]byte("secret-of-" + name))
		fmt.Fprintln(&text, name, hex.EncodeToString(sum[:]), limits)
	}
	file := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o600))
	keys, err := clientkey.Read(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return keys
}

func withKeys(keys *clientkey.Keys) option {
	return withParts(func(p *request.Parts) { p.Keys = keys })
}

// by is the header of a client.
func by(name string) []string { return []string{"Authorization", "Bearer secret-of-" + name} }

// askBy posts a body as a client.
func (h *harness) askBy(name, path, body string) (*http.Response, string) {
	h.t.Helper()
	resp, got := h.Do(http.MethodPost, h.Base+path, body, by(name)...)
	return resp, got
}

// headWorker answers /generate and others, and sends the head of each request to a channel.
func headWorker(t *testing.T, paths ...string) (*fakeWorker, chan http.Header) {
	t.Helper()
	w, heads := newFakeWorker(t, info(1)), make(chan http.Header, 100)
	for _, path := range append(paths, "/generate", "/v1/messages", "/v1/embeddings") {
		w.On(path, func(rw http.ResponseWriter, r *http.Request) {
			heads <- r.Header.Clone()
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, idsReply)
		})
	}
	return w, heads
}

// TestKeysAreWanted: nothing but health and the operators' API is answered without a key, the errors have the form of each API, and no
// worker hears of the request or of a key.
func TestKeysAreWanted(t *testing.T) {
	t.Parallel()
	w, heads := headWorker(t)
	h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "alice", "bob")), withOperator("key-of-operators"), func(s *settings) { s.Request.OperatorKey = []byte("key-of-operators") })
	for _, header := range [][]string{
		nil,
		{"Authorization", "Bearer wrong"},
		{"Authorization", "Bearer "},
		{"Authorization", "secret-of-alice"},
		{"Authorization", "Basic secret-of-alice"},
		{"Authorization", "Bearer secret-of-alice2"},
		{"Authorization", "Bearer alice"},
		{"X-Api-Key", "wrong"},
		{"X-Api-Key", "Bearer secret-of-alice"},
		{"Api-Key", "secret-of-alice"},
		{"Cookie", "secret-of-alice"},
		{"X-Warmpath-Key", "secret-of-alice"},
	} {
		for method, paths := range map[string][]string{
			http.MethodPost: {
				"/generate", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings",
				"/v1/rerank", "/tokenize", "/abort_request", "/v1/responses/resp_1/cancel", "/nowhere",
			},
			http.MethodGet:     {"/v1/models", "/v1/models/tiny", "/model_info", "/server_info", "/health_generate", "/v1/responses/resp_1"},
			http.MethodOptions: {"/generate"}, http.MethodHead: {"/v1/models"}, http.MethodPut: {"/generate"},
		} {
			for _, path := range paths {
				resp, got := h.Do(method, h.Base+path, `{"text":"x","rid":"x"}`, header...)
				require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "%s %s %v", method, path, header)
				assert.Equal(t, "Bearer", resp.Header.Get("WWW-Authenticate"))
				switch {
				case method == http.MethodHead:
				case strings.HasPrefix(path, "/v1/messages"):
					kind, _ := readAnthropicError(t, got)
					assert.Equal(t, "authentication_error", kind)
				default:
					code, _ := errorOf(t, got)
					assert.Equal(t, "invalid_api_key", code)
				}
			}
		}
	}
	for _, path := range []string{"/health", "/healthz", "/ready", "/readyz", "/liveness", "/readiness"} {
		resp, _ := h.Do(http.MethodGet, h.Base+path, "")
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
	}
	assert.Empty(t, heads)
	for _, header := range [][]string{
		by("alice"),
		{"Authorization", "bearer secret-of-bob"},
		{"X-Api-Key", "secret-of-alice"},
		{"Authorization", "Bearer wrong", "X-Api-Key", "secret-of-alice"},
		{"Authorization", "Bearer key-of-operators"},
		{"Authorization", "Bearer key-of-operators", "X-Api-Key", "secret-of-alice"},
	} {
		for _, path := range []string{"/generate", "/v1/messages", "/v1/embeddings"} {
			resp, got := h.Do(http.MethodPost, h.Base+path, `{"max_tokens":8,"text":"x","input":"x","messages":[{"role":"user","content":"x"}]}`, header...)
			require.Equal(t, http.StatusOK, resp.StatusCode, "%s %v: %s", path, header, got)
			head := <-heads
			assert.Empty(t, head.Values("Authorization"), "the client's key is the router's")
			assert.Empty(t, head.Values("X-Api-Key"))
		}
	}
	resp, _ := h.Do(http.MethodOptions, h.Base+"/generate", "", "Origin", "http://app.example", "Access-Control-Request-Method", "POST")
	assert.NotEqual(t, http.StatusUnauthorized, resp.StatusCode, "browsers ask for the policy without a key")
	h.AwaitIdle()
	text := h.metricsBy("Authorization", "Bearer key-of-operators")
	for _, want := range []string{`requests_total{key="alice"} 12`, `requests_total{key="bob"} 3`, `requests_total{key="operator"} 3`, `in_flight{key="alice"} 0`} {
		assert.Contains(t, text, "warmpath_client_key_"+want)
	}
	assert.NotContains(t, text, "secret-of")
}

func (h *harness) metricsBy(header ...string) string {
	h.t.Helper()
	_, got := h.Do(http.MethodGet, h.Operator+"/metrics", "", header...)
	return got
}

// TestBodiesAreNotReadWithoutKey: the answer comes before the body, also where the client waits for "100 Continue".
func TestBodiesAreNotReadWithoutKey(t *testing.T) {
	t.Parallel()
	h := start(t, []*fakeWorker{newFakeWorker(t, info(1))}, withKeys(keysOf(t, "alice")))
	for _, more := range []string{"", "Expect: 100-continue\r\n"} {
		conn, br := h.dial()
		say(t, conn, "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"+more+"\r\n")
		if more == "" { // fasthttp waits for the first byte of a body
			say(t, conn, "{")
		}
		status, _ := answer(t, br)
		assert.Equal(t, http.StatusUnauthorized, status)
		_, err := br.ReadByte()
		assert.ErrorIs(t, err, io.EOF)
	}
	conn, br := h.dial()
	say(t, conn, "POST /generate HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-of-alice\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	continued(t, br)
}

// TestWorkersGetTheirOwnKey in place of the client's, in pairs as well.
func TestWorkersGetTheirOwnKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "workers")
	require.NoError(t, os.WriteFile(file, []byte("key-of-workers\n"), 0o600))
	workerKeys, err := worker.ReadKeys(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	options := []option{withKeys(keysOf(t, "alice")), withWorkers(func(c *worker.Config) { c.Key = workerKeys.Of })}
	w, heads := headWorker(t)
	h := start(t, []*fakeWorker{w}, options...)
	check := func(head http.Header) {
		t.Helper()
		assert.Equal(t, []string{"Bearer key-of-workers"}, head.Values("Authorization"))
		assert.Empty(t, head.Values("X-Api-Key"))
	}
	for _, header := range [][]string{by("alice"), {"X-Api-Key", "secret-of-alice"}} {
		resp, _ := h.Do(http.MethodPost, h.Base+"/generate", `{"text":"x"}`, header...)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		check(<-heads)
	}
	p, d := newPair(t, 1, 1, 1)
	for _, leg := range []*fakeLeg{p[0], d[0]} {
		leg.does(func(l *fakeLeg, rw http.ResponseWriter, r *http.Request, b *pairBody) {
			heads <- r.Header.Clone()
			meets(l, rw, r, b)
		})
	}
	pair := startPair(t, p, d, options...)
	resp, got := pair.askBy("alice", "/generate", pairRequest(false))
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	check(<-heads)
	check(<-heads)
}

// TestPairsGetTheFieldsOfKeys: both legs get the priority and the salt of the key, in bodies that else pass untouched, too.
func TestPairsGetTheFieldsOfKeys(t *testing.T) {
	t.Parallel()
	for _, headers := range []bool{false, true} {
		p, d := newPair(t, 1, 1, 1)
		var both sync.WaitGroup // without a room in the body the legs meet here
		both.Add(2)
		for _, leg := range []*fakeLeg{p[0], d[0]} {
			leg.does(func(_ *fakeLeg, rw http.ResponseWriter, _ *http.Request, _ *pairBody) {
				both.Done()
				both.Wait()
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, `{"choices":[{"text":"","message":{"content":""}}]}`)
			})
		}
		h := startPair(t, p, d, withKeys(keysOf(t, "alice priority=3")), withConfig(func(c *request.Config) { c.SaltByKey, c.Pair.Headers = true, headers }))
		resp, got := h.askBy("alice", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"priority":9}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		for _, leg := range []*fakeLeg{p[0], d[0]} {
			assert.Equal(t, "3", lastPriority(leg.LastBody()))
			assert.Contains(t, leg.LastBody(), `"cache_salt":"`+h.Requests.Keys.All()[0].Salt(nil)+`"`)
			assert.Equal(t, !headers, strings.Contains(leg.LastBody(), "bootstrap_room"))
		}
	}
}

// TestModelsOfKeys: whatever way a body names a model or an adapter.
func TestModelsOfKeys(t *testing.T) {
	t.Parallel()
	w, heads := headWorker(t, "/v1/chat/completions", "/v1/responses")
	keys := keysOf(t, "base models=tiny", "adapter models=tiny:fr", "other models=big", "any")
	h := start(t, []*fakeWorker{w}, withKeys(keys))
	const allowed, refused = http.StatusOK, http.StatusForbidden
	for _, c := range []struct {
		fields               string
		base, adapter, other int
	}{
		{`"model":"tiny"`, allowed, refused, refused},
		{`"mod\u0065l":"tiny"`, allowed, refused, refused},
		{`"model":"big","model":"tiny"`, allowed, refused, refused},
		{`"x":1`, allowed, refused, refused},
		{`"model":"default"`, allowed, refused, refused},
		{`"model":null`, allowed, refused, refused},
		{`"model":"tiny:fr"`, refused, allowed, refused},
		{`"model":"tiny","lora_path":"fr"`, refused, allowed, refused},
		{`"lora_path":"fr"`, refused, allowed, refused},
		{`"model":"tiny","lora_path":["fr","de"]`, refused, refused, refused},
		{`"model":"tiny","lora_path":[null,"de"]`, refused, refused, refused},
		{`"model":"tiny: fr"`, refused, refused, refused},
		{`"model":"tiny:de"`, refused, refused, refused},
	} {
		for name, want := range map[string]int{"base": c.base, "adapter": c.adapter, "other": c.other, "any": allowed} {
			for _, path := range []string{"/generate", "/v1/chat/completions", "/v1/embeddings"} {
				resp, got := h.askBy(name, path, `{"text":"x","input":"x","messages":[{"role":"user","content":"x"}],`+c.fields+`}`)
				require.Equal(t, want, resp.StatusCode, "%s %s %s: %s", name, path, c.fields, got)
				if want == allowed {
					<-heads
				} else {
					code, _ := errorOf(t, got)
					assert.Equal(t, "permission_denied", code)
				}
			}
		}
	}
	resp, got := h.askBy("other", "/v1/messages", messagesBody+`}`)
	assert.Equal(t, refused, resp.StatusCode)
	kind, _ := readAnthropicError(t, got)
	assert.Equal(t, "permission_error", kind)
	resp, _ = h.askBy("other", "/v1/responses", `{"model":"tiny","input":"x"}`)
	assert.Equal(t, refused, resp.StatusCode)
	assert.Empty(t, heads)
	for name, want := range map[string]bool{"base": true, "other": false, "any": true} {
		_, list := h.Do(http.MethodGet, h.Base+"/v1/models", "", by(name)...)
		assert.Equal(t, want, strings.Contains(list, "tiny"), name)
		resp, _ := h.Do(http.MethodGet, h.Base+"/v1/models/tiny", "", by(name)...)
		assert.Equal(t, want, resp.StatusCode != http.StatusForbidden, name)
		for _, path := range []string{"/model_info", "/get_model_info"} {
			resp, _ := h.Do(http.MethodGet, h.Base+path, "", by(name)...)
			assert.Equal(t, want, resp.StatusCode != http.StatusForbidden, "%s %s", name, path)
		}
	}
	assert.Regexp(t, `warmpath_client_key_refused_total\{key="other",limit="model"\} [1-9]`, h.Metrics())
}

// TestRatesOfKeys: 429 with the time to wait, of this key only.
func TestRatesOfKeys(t *testing.T) {
	t.Parallel()
	w, _ := headWorker(t, "/v1/messages")
	h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "few requests-per-minute=2", "short tokens-per-minute=100", "any")))
	for range 2 {
		resp, got := h.askBy("few", "/generate", `{"text":"x"}`)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
	}
	resp, got := h.askBy("few", "/generate", `{"text":"x"}`)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Contains(t, got, `"reason":"requests"`)
	assert.Contains(t, got, `"rate_limit_exceeded"`)
	assert.Regexp(t, `^([12]\d|30)$`, resp.Header.Get("Retry-After"))
	assert.Equal(t, "2", resp.Header.Get("X-Ratelimit-Limit-Requests"))
	assert.Equal(t, "0", resp.Header.Get("X-Ratelimit-Remaining-Requests"))
	_, err := time.ParseDuration(resp.Header.Get("X-Ratelimit-Reset-Requests"))
	assert.NoError(t, err)
	resp, got = h.askBy("few", "/v1/messages", messagesBody+`}`)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	kind, _ := readAnthropicError(t, got)
	assert.Equal(t, "rate_limit_error", kind)

	w.Answers("/generate", `{"text":"x","meta_info":{"prompt_tokens":30,"completion_tokens":500,"cached_tokens":0}}`)
	resp, got = h.askBy("short", "/generate", `{"text":"`+strings.Repeat("word ", 60)+`"}`) // an estimate of 75
	require.Equal(t, http.StatusOK, resp.StatusCode, got)
	h.AwaitIdle()
	resp, got = h.askBy("short", "/generate", `{"text":"x"}`)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Contains(t, got, `"reason":"tokens"`)
	assert.Regexp(t, `^2[3-6]\d$`, resp.Header.Get("Retry-After"), "430 tokens that come back in a minute for each 100")
	assert.Contains(t, h.Metrics(), `warmpath_client_key_tokens_total{key="short",kind="completion"} 500`)
	resp, got = h.askBy("any", "/generate", `{"text":"x"}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode, got)
}

// TestTokensOfEachAnswer: what counts is what the worker reports, and without a report the events.
func TestTokensOfEachAnswer(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "a")))
	total := func() (prompt, completion uint64) {
		c := h.Requests.Keys.All()[0].Counts()
		return c.PromptTokens, c.Completion
	}
	chunk := "data: {\"choices\":[{\"delta\":{\"content\":\"data: \\n\\n\"}}]}\n\n"
	body := `{"stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 40) + `"}]}`
	for _, c := range []struct {
		name, path, body, reply string
		event                   bool
		status                  int
		prompt, completion      uint64
	}{
		{"usage", "/v1/chat/completions", body, chunk + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n", true, 200, 7, 9},
		{"events", "/v1/chat/completions", body, chunk + chunk + chunk + "data: [DONE]\n\n", true, 200, 1, 4},
		{"refused by the worker", "/v1/chat/completions", body, `{"error":{"message":"no"}}`, false, 400, 0, 0},
		{"others", "/v1/embeddings", `{"input":"` + strings.Repeat("word ", 40) + `"}`, `{"usage":{"prompt_tokens":7,"completion_tokens":9}}`, false, 200, 1, 0},
	} {
		w.On(c.path, func(rw http.ResponseWriter, _ *http.Request) {
			if c.event {
				rw.Header().Set("Content-Type", "text/event-stream")
			}
			rw.WriteHeader(c.status)
			_, _ = io.WriteString(rw, c.reply)
		})
		promptBefore, completionBefore := total()
		resp, got := h.askBy("a", c.path, c.body)
		require.Equal(t, c.status, resp.StatusCode, got)
		h.AwaitIdle()
		prompt, completion := total()
		if c.prompt == 1 {
			assert.InDelta(t, 55, prompt-promptBefore, 15, "%s: an estimate", c.name)
		} else {
			assert.Equal(t, c.prompt, prompt-promptBefore, c.name)
		}
		assert.Equal(t, c.completion, completion-completionBefore, c.name)
	}
}

// TestPlacesOfKeysAreFreed in each way in which a request ends.
func TestPlacesOfKeysAreFreed(t *testing.T) {
	t.Parallel()
	w, began, finish := busyWorker(t)
	h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "one concurrency=1 tokens-per-minute=100000", "two")), withQueue(request.QueueConfig{MaxInFlight: 1}))
	key := h.Requests.Keys.All()[0]
	freed := func(how string) {
		t.Helper()
		require.Eventually(t, func() bool { return key.Counts().InFlight == 0 }, patience, tick, how)
	}
	var wg sync.WaitGroup
	first := h.send(t.Context(), &wg, `{"text":"first"}`, by("one")...)
	<-began
	resp, got := h.askBy("one", "/generate", `{"text":"x"}`)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	assert.Contains(t, got, `"reason":"concurrency"`)
	assert.Equal(t, "1", resp.Header.Get("Retry-After"))
	assert.Equal(t, 1, key.Counts().InFlight, "the refused request has no place")
	finish <- struct{}{}
	wg.Wait()
	assert.Equal(t, 200, *first)
	freed("an answer")

	for how, body := range map[string]string{"bad JSON": `{`, "unknown model": `{"model":"none","text":"x"}`, "bad ids": `{"input_ids":"x"}`} {
		resp, _ := h.askBy("one", "/generate", body)
		require.GreaterOrEqual(t, resp.StatusCode, 400, how)
		freed(how)
	}
	h.send(t.Context(), &wg, `{"text":"other"}`, by("two")...)
	<-began
	resp, _ = h.Do(http.MethodPost, h.Base+"/generate", `{"text":"x"}`, append(by("one"), "X-Warmpath-Deadline", "0.001")...)
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	freed("no place in the queue")
	ctx, leave := context.WithCancel(t.Context())
	h.send(ctx, &wg, `{"text":"leaves"}`, by("one")...)
	h.awaitWaiting(1)
	leave()
	freed("a client that leaves the queue")
	finish <- struct{}{}
	wg.Wait()

	ctx, leave = context.WithCancel(t.Context())
	h.send(ctx, &wg, `{"text":"leaves"}`, by("one")...)
	<-began
	leave()
	freed("a client that leaves before the answer")
	wg.Wait()
	for how, f := range map[string]http.HandlerFunc{
		"an error":           func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusInternalServerError) },
		"a worker that dies": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a stream that breaks": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n")
			flush(rw)
			panic(http.ErrAbortHandler)
		},
		"no HTTP": func(rw http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(rw).Hijack()
			_, _ = io.WriteString(conn, "nonsense\r\n\r\n")
			_ = conn.Close()
		},
	} {
		w.On("/v1/completions", f)
		_, _, _ = h.Try(http.MethodPost, h.Base+"/v1/completions", `{"prompt":"x","stream":true}`, by("one")...)
		freed(how)
	}
	streams := make(chan struct{})
	w.On("/v1/completions", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, "data: {\"text\":\"a\",\"meta_info\":{\"id\":\"a\"}}\n\n")
		flush(rw)
		close(streams)
		<-r.Context().Done()
	})
	ctx, leave = context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Base+"/v1/completions", strings.NewReader(`{"prompt":"x","stream":true}`))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer secret-of-one")
	resp, err = h.Client.Do(req)
	require.NoError(t, err)
	<-streams
	assert.Equal(t, 1, key.Counts().InFlight)
	leave()
	_ = resp.Body.Close()
	freed("a client that leaves its stream")
}

// TestPriorityAndDeadlineOfKeys: a request gets as much as its key may have, at the worker too.
func TestPriorityAndDeadlineOfKeys(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	for _, path := range []string{"/generate", "/v1/chat/completions", "/v1/embeddings", "/v1/responses"} {
		w.Answers(path, idsReply)
	}
	h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "none", "five priority=5", "low priority=-2")))
	const chat = `"messages":[{"role":"user","content":"x"}],"text":"x","input":"x","rid":"r","request_id":"resp_0123456789abcdef0123456789abcdef"`
	for _, c := range []struct{ fields, none, five, low string }{
		{`"priority":3`, "null", "3", "-2"},
		{`"priority":9`, "null", "5", "-2"},
		{`"priority":-7`, "null", "-7", "-7"},
		{`"priority":"9"`, "null", "5", "-2"},
		{`"priority":9.0`, "null", "5", "-2"},
		{`"prior\u0069ty":9`, "null", "5", "-2"},
		{`"priority":1,"priority":9`, "null", "5", "-2"},
		{`"priority":true`, "null", "1", "-2"},
		{`"priority":null`, "null", "null", "null"},
		{`"x":1`, "", "", ""},
	} {
		for name, want := range map[string]string{"none": c.none, "five": c.five, "low": c.low} {
			for _, path := range []string{"/generate", "/v1/chat/completions", "/v1/embeddings", "/v1/responses"} {
				resp, got := h.askBy(name, path, `{`+c.fields+`,`+chat+`}`)
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				if path == "/v1/responses" && want == "null" && c.fields != `"priority":null` {
					want = "0"
				}
				assert.Equal(t, want, lastPriority(w.LastBody()), "%s %s of %s", path, c.fields, name)
				if want == "0" {
					want = "null"
				}
			}
		}
	}
}

// TestSaltsOfKeys: each key's prompts have a salt of their own, whatever salt a body names; none takes over another's.
func TestSaltsOfKeys(t *testing.T) {
	t.Parallel()
	w, _ := headWorker(t, "/v1/chat/completions", "/v1/completions", "/v1/responses")
	h := start(t, []*fakeWorker{w}, withKeys(keysOf(t, "alice", "bob", "own cache-salt=own")), withConfig(func(c *request.Config) { c.SaltByKey = true }))
	salts := map[string]string{} // to its key and the salt that its body has named
	for _, c := range []struct{ path, body string }{
		{"/generate", `{"text":"x"%s}`},
		{"/generate", `{"text":["x","y"]%s}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]%s}`},
		{"/v1/completions", `{"prompt":"x"%s}`},
		{"/v1/responses", `{"input":"x"%s}`},
	} {
		taken := h.Requests.Keys.All()[1].Salt(nil)
		for _, own := range []string{
			"", `,"cache_salt":"x"`, `,"cache_salt":"` + taken + `"`, `,"cache_salt":["` + taken + `","y"]`, `,"cache_salt":[null,"` + taken + `"]`, `,"cache_\u0073alt":"` + taken + `"`,
			`,"cache_salt":"x","cache_salt":null`, `,"cache_salt":"y","cache_salt":""`,
		} {
			for _, name := range []string{"alice", "bob"} {
				resp, got := h.askBy(name, c.path, fmt.Sprintf(c.body, own))
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				var sent map[string]any // a reader that takes the last of equal names
				require.NoError(t, json.Unmarshal([]byte(w.LastBody()), &sent), w.LastBody())
				salt, _ := sent["cache_salt"].(string)
				require.NotEmpty(t, salt, "%s %s", c.path, own)
				if other := salts[salt]; other != "" {
					assert.Equal(t, name, other, "%s: the salt of another", own)
				}
				salts[salt] = name
			}
		}
		for own, want := range map[string]int{
			`,"cache_salt":"x"`: http.StatusOK, ``: http.StatusOK,
			`,"cache_salt":"` + taken + `"`: http.StatusBadRequest, `,"cache_salt":["y","` + taken + `"]`: http.StatusBadRequest,
			`,"cache_salt":[null,"\u0077` + taken[1:] + `"]`: http.StatusBadRequest, `,"cache_\u0073alt":"` + taken + `"`: http.StatusBadRequest,
		} {
			resp, got := h.askBy("own", c.path, fmt.Sprintf(c.body, own))
			require.Equal(t, want, resp.StatusCode, "%s %s: %s", c.path, own, got)
			if want == http.StatusOK {
				assert.Equal(t, own != "", strings.Contains(w.LastBody(), `"cache_salt":"x"`), "it is as the client wrote it")
			}
		}
	}
	resp, got := h.askBy("alice", "/v1/messages", messagesBody+`}`)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	kind, _ := readAnthropicError(t, got)
	assert.Equal(t, "invalid_request_error", kind)
	resp, got = h.askBy("own", "/v1/messages", messagesBody+`}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode, got)
}

// lastPriority returns the raw priority of a body as a reader of JSON takes it: the last one. "": it has none.
func lastPriority(body string) string {
	body = strings.ReplaceAll(body, `\u0069`, "i")
	i := strings.LastIndex(body, `"priority":`)
	if i < 0 {
		return ""
	}
	value := body[i+len(`"priority":`):]
	value = strings.Trim(value[:strings.IndexAny(value, ",}")], `"`)
	return strings.TrimSuffix(strings.Replace(value, "true", "1", 1), ".0")
}
