package request_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/admin"
)

// TestClientsSessions sends turns as Claude Code, Codex and OpenAI's clients do: each client has one
// session, by the first of its names that counts.
func TestClientsSessions(t *testing.T) {
	t.Parallel()
	const uuid, jsonUser = "57a121ec-f78c-48c3-a745-e3036a3ecc33", `{"model":"tiny","max_tokens":8,"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"`
	long := strings.Repeat("some words of a prompt ", 40)
	for name, c := range map[string]struct {
		path, body string // with the turn's number
		header     []string
		source     string
	}{
		"Claude Code": {
			"/v1/messages",
			`{"model":"tiny","max_tokens":8,"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"` + uuid + `\"}"},"messages":[{"role":"user","content":"%[1]d ` + long + `"}]}`,
			[]string{"X-Claude-Code-Session-Id", uuid, "Anthropic-Version", "2023-06-01"},
			"header",
		},
		"Claude Code through a gateway": {
			"/v1/messages",
			`{"model":"tiny","max_tokens":8,"metadata":{"user_id":"user_0a_account__session_` + uuid + `"},"messages":[{"role":"user","content":"%[1]d ` + long + `"}]}`,
			nil,
			"metadata",
		},
		"Codex": {
			"/v1/responses",
			`{"model":"tiny","instructions":"i","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"%[1]d ` + long + `"}]}],"store":false,"prompt_cache_key":"` + uuid + `"}`,
			[]string{"conversation_id", uuid, "session_id", uuid, "originator", "codex_cli_rs"},
			"header",
		},
		"Codex through a gateway": {
			"/v1/responses",
			`{"model":"tiny","input":"%[1]d ` + long + `","store":false,"prompt_cache_key":"` + uuid + `"}`,
			nil,
			"prompt_cache_key",
		},
		"conversation": {"/v1/responses", `{"model":"tiny","input":"%[1]d ` + long + `","conversation":{"id":"conv_1"}}`, nil, "conversation"},
		"SGLang":       {"/generate", `{"text":"%[1]d ` + long + `","session_params":{"id":"s"}}`, []string{"X-Session-ID", "other"}, "session_id"},
		"gateway":      {"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"%[1]d ` + long + `"}]}`, []string{"X-Session-ID", "s"}, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFakeWorker(t, info(1))
			w.Answers(c.path, `{"text":"x","choices":[{"text":"x","message":{"content":"x"}}],"content":[{"type":"text"}],"output":[{"id":"x"}],"meta_info":{"id":"x"}}`)
			h := start(t, []*fakeWorker{w})
			for turn := range 3 {
				h.Do(http.MethodPost, h.Base+c.path, fmt.Sprintf(c.body, turn), c.header...)
			}
			h.AwaitEnded(3)
			h.AwaitIdle()
			st := h.Admin.Status().Sessions
			st.Pause = 0
			require.Equal(t, &admin.SessionStatus{
				Live: 1, Named: 1, Branches: 3, Sources: map[string]uint64{c.source: 3}, Turns: map[string]uint64{"first": 1, "branch": 2},
			}, st)
		})
	}
}

// TestResponsesAreTurns: a request that names the response before is the next turn of its session,
// though its body has the new part only.
func TestResponsesAreTurns(t *testing.T) {
	t.Parallel()
	w := newFakeWorker(t, storing)
	w.On("/v1/responses", func(rw http.ResponseWriter, r *http.Request) {
		var b struct {
			ID string `json:"request_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&b)
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, strings.Replace(responseReply, "resp_1", b.ID, 1))
	})
	h := start(t, []*fakeWorker{w})
	more := ""
	for turn := range 4 {
		_, body := h.Post("/v1/responses", fmt.Sprintf(`{"model":"tiny","input":"%d %s"%s}`, turn, strings.Repeat("words ", 60), more))
		var r struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(body), &r), "%s", body)
		more = `,"previous_response_id":"` + r.ID + `"`
	}
	h.AwaitEnded(4)
	h.AwaitIdle()
	st := h.Admin.Status().Sessions
	require.Equal(t, map[string]uint64{"first": 1, "next": 3}, st.Turns)
	require.Equal(t, 1, st.Live)
}
