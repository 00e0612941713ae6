package request_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// Bodies of Ollama's API without their ends, and SGLang 0.5.23's answers.
const (
	ollamaChat      = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]`
	ollamaPrompt    = `{"model":"tiny","prompt":"hi"`
	ollamaChatReply = `{"model":"tiny","created_at":"2026-01-01T00:00:00.000Z","message":{"role":"assistant","content":"a","images":null},"done":true,"done_reason":"stop","total_duration":5,"load_duration":null,"prompt_eval_count":7,"prompt_eval_duration":null,"eval_count":3,"eval_duration":null}`
	ollamaReply     = `{"model":"tiny","created_at":"2026-01-01T00:00:00.000Z","response":"a","done":true,"done_reason":"stop","context":null,"total_duration":5,"load_duration":null,"prompt_eval_count":7,"prompt_eval_duration":null,"eval_count":3,"eval_duration":null}`
	ollamaLine      = `{"model":"tiny","created_at":"2026-01-01T00:00:00.000Z","message":{"role":"assistant","content":"an \"error\", \"done\":true","images":null},"done":false,"done_reason":null}` + "\n"
	ollamaEnd       = `{"model":"tiny","created_at":"2026-01-01T00:00:00.000Z","message":{"role":"assistant","content":"","images":null},"done":true,"done_reason":"stop"}` + "\n"
)

// ndjson answers with a stream of lines.
func ndjson(text string) func(rw http.ResponseWriter) {
	return func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = io.WriteString(rw, text)
	}
}

func streamsLines(w *fakeWorker, path, text string) {
	w.On(path, func(rw http.ResponseWriter, _ *http.Request) { ndjson(text)(rw) })
}

// ollamaError reads an error as Ollama's clients read it.
func ollamaError(t *testing.T, body string) string {
	t.Helper()
	var e struct{ Error string }
	require.NoError(t, json.Unmarshal([]byte(body), &e), "%s", body)
	require.NotEmpty(t, e.Error, "%s", body)
	return e.Error
}

// TestOllamaPasses: answers and streams pass as they are, the worker gets the client's bytes, and
// the usage counts.
func TestOllamaPasses(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	log, lines := withAccessLog(t)
	h := start(t, []*fakeWorker{w}, log)
	var whole []string // names of the requests with a usage
	for i, c := range []struct{ path, body, answer string }{
		{"/api/chat", ollamaChat + `,"stream":false}`, ollamaChatReply},
		{"/api/generate", ollamaPrompt + `,"system":"be brief","stream":false}`, ollamaReply},
		{"/api/chat", ollamaChat + `}`, ollamaLine + ollamaEnd},
	} {
		if w.Answers(c.path, c.answer); !strings.Contains(c.body, "stream") {
			streamsLines(w, c.path, c.answer)
		}
		resp, body := h.Post(c.path, c.body)
		require.Equal(t, http.StatusOK, resp.StatusCode, body)
		assert.Equal(t, c.answer, body)
		assert.NotEmpty(t, resp.Header.Get("X-Warmpath-Overlap"))
		assert.Equal(t, c.body, w.LastBody())
		h.AwaitEnded(uint64(i + 1))
		if i < 2 {
			whole = append(whole, resp.Header.Get("X-Request-Id"))
		}
	}
	for _, r := range h.Registry.Snapshot().Ranks {
		assert.Zero(t, r.Count.Errors.Load())
	}

	// A prompt without a text loads a model: SGLang answers it at once.
	streamsLines(w, "/api/generate", `{"model":"tiny","response":"","done":true}`+"\n")
	resp, body := h.Post("/api/generate", `{"model":"tiny","prompt":" "}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode, body)
	w.Answers("/api/show", `{"details":{}}`)
	resp, body = h.Post("/api/show", `{"model":"tiny"}`)
	assert.Equal(t, http.StatusOK, resp.StatusCode, body)
	resp, body = h.Do(http.MethodGet, h.Base+"/api/tags", "")
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Contains(t, body, `"models":[{"name":"tiny","model":"tiny"`)
	for _, base := range []string{h.Base, h.Operator} {
		resp, _ = h.Do(http.MethodHead, base+"/", "")
		assert.Equal(t, http.StatusOK, resp.StatusCode)
	}
	h.AwaitIdle()
	logged := byName(t, lines())
	for _, name := range whole {
		assert.Equal(t, []any{7.0, 3.0}, []any{logged[name]["input_length"], logged[name]["output_length"]})
	}
}

// TestOllamaTurnsStayTogether: the next turn of a chat goes where the one before is in the cache.
func TestOllamaTurnsStayTogether(t *testing.T) {
	t.Parallel()
	var workers []*fakeWorker
	for range 4 {
		w := newFakeWorker(t, info(1))
		streamsLines(w, "/api/chat", ollamaLine+ollamaEnd)
		streamsLines(w, "/api/generate", ollamaLine+ollamaEnd)
		workers = append(workers, w)
	}
	h := start(t, workers)
	n := uint64(0)
	for kind, body := range map[string]func(chat, turn int) (path, body string){
		"chats": func(chat, turn int) (string, string) {
			messages := []string{fmt.Sprintf(`{"role":"system","content":"%d %s"}`, chat, strings.Repeat("words of a system prompt ", 60))}
			for i := range turn + 1 {
				messages = append(messages, fmt.Sprintf(`{"role":"user","content":"question %d"},{"role":"assistant","content":"answer"}`, i))
			}
			return "/api/chat", `{"model":"tiny","messages":[` + strings.Join(messages, ",") + `]}`
		},
		"prompts": func(chat, turn int) (string, string) {
			return "/api/generate", fmt.Sprintf(`{"model":"tiny","system":"%d %s","prompt":"%s"}`, chat, strings.Repeat("rules ", 200), strings.Repeat("question ", 9*(turn+1)))
		},
	} {
		for chat := range 6 {
			first := ""
			for turn := range 3 {
				resp, got := h.Post(body(chat, turn))
				require.Equal(t, http.StatusOK, resp.StatusCode, got)
				at := resp.Header.Get("X-Warmpath-Worker")
				if first == "" {
					first = at
				}
				assert.Equal(t, first, at, "%s %d turn %d", kind, chat, turn)
				n++
				h.AwaitEnded(n)
				h.AwaitIdle()
			}
		}
	}
}

// TestOllamaErrors: the router's errors are Ollama's, also in the place of the rest of a stream.
func TestOllamaErrors(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withConfig(func(c *request.Config) { c.Retries = -1 }))
	for name, c := range map[string]struct {
		path, body string
		status     int
	}{
		"no JSON":        {"/api/chat", `{`, 400},
		"no messages":    {"/api/chat", `{"model":"tiny"}`, 400},
		"no prompt":      {"/api/generate", `{"model":"tiny"}`, 400},
		"a list":         {"/api/generate", `[]`, 400},
		"without bounds": {"/api/chat", ollamaChat + `,"options":{"num_predict":-1}}`, 400},
		"deadly top_k":   {"/api/chat", ollamaChat + `,"options":{"top_k":3000000000}}`, 400},
		"deadly top k":   {"/api/generate", ollamaPrompt + `,"options":{"top_k":3000000000}}`, 400},
		"other model":    {"/api/chat", `{"model":"no","messages":[{"role":"user","content":"hi"}]}`, 404},
		"not served":     {"/api/pull", `{}`, 404},
	} {
		resp, body := h.Post(c.path, c.body)
		assert.Equal(t, c.status, resp.StatusCode, "%s: %s", name, body)
		ollamaError(t, body)
	}
	for name, c := range map[string]struct {
		answer func(rw http.ResponseWriter)
		begin  string // that the client gets
		status int
	}{
		"dies":           {ndjson(ollamaLine), ollamaLine, 200},
		"dies in a line": {ndjson(ollamaLine + ollamaLine[:50]), ollamaLine, 200},
		"dies at once":   {ndjson(""), "", 502},
	} {
		w.Dies("/api/chat", c.answer)
		resp, body := h.Post("/api/chat", ollamaChat+`}`)
		rest, ok := strings.CutPrefix(body, c.begin)
		require.True(t, ok, "%s: %s", name, body)
		assert.NotEmpty(t, ollamaError(t, rest), name)
		assert.Equal(t, c.status, resp.StatusCode, name)
	}
	streamsLines(w, "/api/chat", ollamaLine) // without its end
	_, body := h.Post("/api/chat", ollamaChat+`}`)
	rest, ok := strings.CutPrefix(body, ollamaLine)
	require.True(t, ok, body)
	ollamaError(t, rest)
	w.Dies("/api/generate", ndjson(ollamaEnd)) // of a prompt without a text
	_, body = h.Post("/api/generate", `{"model":"tiny","prompt":" "}`)
	rest, ok = strings.CutPrefix(body, ollamaEnd)
	require.True(t, ok, body)
	ollamaError(t, rest)
	streamsLines(w, "/api/chat", `{"error":"boom"}`+"\n")
	_, body = h.Post("/api/chat", ollamaChat+`}`)
	assert.Equal(t, "boom", ollamaError(t, body))
}

// TestOllamaNeedsARegularWorker: its bodies have no room for a pair's bootstrap.
func TestOllamaNeedsARegularWorker(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	h := startPair(t, p, d)
	resp, body := h.Post("/api/chat", ollamaChat+`}`)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, ollamaError(t, body), "regular worker")
	resp, body = h.Post("/open_session", openBody+`}`)
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	assert.Contains(t, body, "regular worker")
}
