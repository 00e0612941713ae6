package request_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request"
)

// messagesBody is a body of /v1/messages.
const messagesBody = `{"model":"tiny","max_tokens":8,"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],` +
	`"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`

// Answers of /v1/messages, as SGLang 0.5.23 sends them.
const (
	messageReply = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"a"}],"model":"tiny","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":4}}`
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"tiny\",\"usage\":{\"input_tokens\":3,\"output_tokens\":0,\"cache_read_input_tokens\":4}}}\n\n"
	messageText  = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	messageEnd   = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	messageError = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"boom\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// readAnthropicError reads an error as Anthropic's clients read it.
func readAnthropicError(t *testing.T, body string) (kind, message string) {
	t.Helper()
	var e struct {
		Type  string
		Error struct{ Type, Message string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &e), "%s", body)
	require.Equal(t, "error", e.Type, "%s", body)
	require.NotEmpty(t, e.Error.Message)
	return e.Error.Type, e.Error.Message
}

// TestMessagesPassUnchanged: the worker gets the client's bytes, its query and its header.
func TestMessagesPassUnchanged(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	type got struct{ query, beta, rid string }
	seen := make(chan got, 1)
	w.On("/v1/messages", func(rw http.ResponseWriter, r *http.Request) {
		seen <- got{r.URL.RawQuery, r.Header.Get("Anthropic-Beta"), r.Header.Get("X-Override-Rid")}
		_, _ = io.WriteString(rw, messageReply)
	})
	h := start(t, []*fakeWorker{w})
	resp, body := h.Do(http.MethodPost, h.Base+"/v1/messages?beta=true", messagesBody+"}",
		"anthropic-beta", "claude-code-20250219", "anthropic-version", "2023-06-01", "X-Override-Rid", "mine")
	assert.Equal(t, messageReply, body)
	assert.NotEmpty(t, resp.Header.Get("X-Warmpath-Overlap"))
	assert.Equal(t, messagesBody+"}", w.LastBody())
	g := <-seen
	assert.Equal(t, "beta=true", g.query)
	assert.Equal(t, "claude-code-20250219", g.beta)
	assert.True(t, strings.HasPrefix(g.rid, "wp-"), "the body takes no id, and a client's own could end other requests: %q", g.rid)
}

// TestClaudeCode sends a request in the shape of Claude Code's: the worker gets its header and its
// body, and an answer in gzip is one that the client reads.
func TestClaudeCode(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../prompt/anthropic/testdata/claude_code.json")
	require.NoError(t, err)
	var recorded struct {
		Path    string
		Headers map[string]string
		Body    json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &recorded))
	w := newFakeWorker(t, info(1))
	seen := make(chan http.Header, 1)
	w.On("/v1/messages", func(rw http.ResponseWriter, r *http.Request) {
		seen <- r.Header
		rw.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(rw, messageStart+messageText+messageEnd)
	})
	h := start(t, []*fakeWorker{w})
	var headers []string
	for k, v := range recorded.Headers {
		if k != "Accept-Encoding" { // which Go's client asks for and reads by itself
			headers = append(headers, k, v)
		}
	}
	resp, body := h.Do(http.MethodPost, h.Base+recorded.Path, string(recorded.Body), headers...)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, messageStart+messageText+messageEnd, body)
	assert.Equal(t, string(recorded.Body), w.LastBody())
	got := <-seen
	for i := 0; i < len(headers); i += 2 {
		assert.Equal(t, headers[i+1], got.Get(headers[i]), headers[i])
	}
}

// TestMessagesErrors: the router's own errors on these paths are Anthropic's.
func TestMessagesErrors(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	h := start(t, []*fakeWorker{w}, withConfig(func(c *request.Config) { c.MaxBodyBytes = 4096 }))
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		kind               string
	}{
		"no JSON":                  {"POST", "/v1/messages", `{`, 400, "invalid_request_error"},
		"deep":                     {"POST", "/v1/messages", `{"messages":` + deep + `}`, 400, "invalid_request_error"},
		"deep tools":               {"POST", "/v1/messages", `{"messages":[],"tools":` + deep + `}`, 400, "invalid_request_error"},
		"no messages":              {"POST", "/v1/messages", `{"model":"tiny"}`, 400, "invalid_request_error"},
		"empty messages":           {"POST", "/v1/messages", `{"model":"tiny","messages":[]}`, 400, "invalid_request_error"},
		"deadly top_k":             {"POST", "/v1/messages", messagesBody + `,"top_k":3000000000}`, 400, "invalid_request_error"},
		"deadly top_k in a string": {"POST", "/v1/messages", messagesBody + `,"top_k":"3_000_000_000"}`, 400, "invalid_request_error"},
		"other model":              {"POST", "/v1/messages", strings.Replace(messagesBody, "tiny", "nope", 1) + `}`, 404, "not_found_error"},
		"no such path":             {"POST", "/v1/messages/batches", `{}`, 404, "not_found_error"},
		"method":                   {"GET", "/v1/messages", ``, 405, "invalid_request_error"},
		"too large":                {"POST", "/v1/messages", messagesBody + `,"x":"` + strings.Repeat("x", 5000) + `"}`, 413, "request_too_large"},
		"count, no JSON":           {"POST", "/v1/messages/count_tokens", `{`, 400, "invalid_request_error"},
	} {
		resp, body, err := h.Try(c.method, h.Base+c.path, c.body)
		require.NoError(t, err, name)
		assert.Equal(t, c.status, resp.StatusCode, "%s: %s", name, body)
		kind, _ := readAnthropicError(t, body)
		assert.Equal(t, c.kind, kind, name)
	}
	_ = w.Close()
	require.Eventually(t, func() bool {
		resp, body := h.Post("/v1/messages", messagesBody+"}")
		kind, _ := readAnthropicError(t, body)
		return resp.StatusCode == http.StatusServiceUnavailable && kind == "overloaded_error"
	}, patience, tick, "no error for a fleet without workers")
}

// TestMessagesBrokenStream: a stream that breaks ends with an error event, and one that fails
// before its first text is asked for elsewhere.
func TestMessagesBrokenStream(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	w.Breaks("/v1/messages", messageStart+messageText)
	h := start(t, []*fakeWorker{w})
	_, body := h.Post("/v1/messages", messagesBody+`,"stream":true}`)
	rest, ok := strings.CutPrefix(body, messageStart+messageText)
	require.True(t, ok, "%s", body)
	lines := strings.Split(rest, "\n")
	require.Equal(t, "event: error", lines[0])
	kind, _ := readAnthropicError(t, strings.TrimPrefix(lines[1], "data: "))
	assert.Equal(t, "api_error", kind)
	assert.True(t, strings.HasSuffix(body, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"))
}

// TestMessagesOldPair: older releases drop the room, and the request would fail at both legs.
func TestMessagesOldPair(t *testing.T) {
	t.Parallel()
	p, d := newPair(t, 1, 1, 1)
	d[0].Answers("/server_info", `{"version":"0.5.22","served_model_name":"tiny","page_size":4,"dp_size":1,"disaggregation_mode":"decode"}`)
	h := startPair(t, p, d)
	resp, body := h.Post("/v1/messages", messagesBody+"}")
	assert.Equal(t, http.StatusBadRequest, resp.StatusCode)
	kind, message := readAnthropicError(t, body)
	assert.Equal(t, "invalid_request_error", kind)
	assert.Contains(t, message, "0.5.23")
	assert.Empty(t, p[0].LastBody()+d[0].LastBody())
	h.answersWhole("/v1/messages", messagesBody+"}", messageReply)
}

// TestCountTokensIsNoLoad: counting goes to one worker, of a pair to either, and waits for none.
func TestCountTokensIsNoLoad(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, info(1))
	counted := make(chan struct{})
	w.On("/v1/messages/count_tokens", func(rw http.ResponseWriter, _ *http.Request) {
		counted <- struct{}{}
		<-counted
		_, _ = io.WriteString(rw, `{"input_tokens":7}`)
	})
	h := start(t, []*fakeWorker{w})
	long := strings.Replace(messagesBody, "hi", strings.Repeat("word ", 2000), 1) + "}"
	done := make(chan string, 1)
	go func() {
		_, body, _ := h.Try(http.MethodPost, h.Base+"/v1/messages/count_tokens?beta=true", long)
		done <- body
	}()
	<-counted
	for _, r := range h.Registry.Snapshot().Ranks {
		assert.Zero(t, r.Load.Pending(), "tokens to prefill")
	}
	counted <- struct{}{}
	assert.JSONEq(t, `{"input_tokens":7}`, <-done)
	assert.Equal(t, long, w.LastBody())

	p, d := newPair(t, 1, 1, 1)
	for _, l := range []*fakeLeg{p[0], d[0]} {
		l.Answers("/v1/messages/count_tokens", `{"input_tokens":7}`)
	}
	_, body := startPair(t, p, d).Post("/v1/messages/count_tokens", messagesBody+"}")
	assert.JSONEq(t, `{"input_tokens":7}`, body)
}
