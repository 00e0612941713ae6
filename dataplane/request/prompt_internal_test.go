package request

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
)

// sessionRequest returns a request with these headers and body.
func sessionRequest(t *testing.T, body string, headers ...string) (call, *openai.Request) {
	t.Helper()
	ctx := &fasthttp.RequestCtx{}
	for i := 0; i < len(headers); i += 2 {
		ctx.Request.Header.Set(headers[i], headers[i+1])
	}
	ctx.Request.SetBodyString(body)
	req := &openai.Request{}
	require.NoError(t, req.Parse(openai.APIOther, ctx.Request.Body()))
	return call{ctx}, req
}

// sessionNamed returns the session of a request for a model.
func sessionNamed(c call, req *openai.Request, p routing.Prompt) (uint64, routing.SessionSource) {
	nameSession(&p, c, req)
	return p.Session, p.SessionSource
}

func TestSessionNames(t *testing.T) {
	key := func(name string) uint64 {
		var p routing.Prompt
		p.NameSession([]byte(name), routing.SessionHeader)
		return p.Session
	}
	tests := []struct {
		name    string
		body    string
		headers []string
		want    string
		from    routing.SessionSource
	}{
		{"none", `{"user":"u"}`, []string{"Authorization", "Bearer a"}, "", routing.NoSession},
		{"SGLang's session before the header", `{"session_id":"b"}`, []string{"X-Session-ID", "h"}, "b", routing.SessionField},
		{"header", `{"prompt_cache_key":"k"}`, []string{"x-session-id", "h"}, "h", routing.SessionHeader},
		{"Claude Code's header", `{"metadata":{"user_id":"user_1_account__session_b"}}`, []string{"X-Claude-Code-Session-Id", "b"}, "b", routing.SessionHeader},
		{"Claude Code's body", `{"metadata":{"user_id":"user_1_account__session_b"}}`, nil, "b", routing.SessionMetadata},
		{"Codex", `{"prompt_cache_key":"c","store":false}`, []string{"conversation_id", "c", "session_id", "c"}, "c", routing.SessionHeader},
		{"Codex since 2026", `{"prompt_cache_key":"c"}`, []string{"Session-Id", "c", "Originator", "codex_cli_rs"}, "c", routing.SessionHeader},
		{"conversation_id alone", `{}`, []string{"conversation_id", "c"}, "c", routing.SessionHeader},
		{"OpenCode", `{}`, []string{"x-opencode-session", "o"}, "o", routing.SessionHeader},
		{"of two headers the more general", `{}`, []string{"x-opencode-session", "o", "X-Session-ID", "h"}, "h", routing.SessionHeader},
		{"empty header", `{"conversation":"c"}`, []string{"X-Session-ID", ""}, "c", routing.SessionConversation},
		{"long header", `{"conversation":"c"}`, []string{"X-Session-ID", string(make([]byte, 513))}, "c", routing.SessionConversation},
		{"answer", `{"previous_response_id":"resp_1","prompt_cache_key":"k"}`, nil, "resp_1", routing.SessionResponse},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			call, req := sessionRequest(t, c.body, c.headers...)
			got, from := sessionNamed(call, req, routing.Prompt{})
			require.Equal(t, c.from, from)
			if c.from == routing.NoSession {
				require.Zero(t, got)
				return
			}
			require.Equal(t, key(c.want), got)
		})
	}
}

// TestSessionNamesAreApart: a name is a session of one model, adapter and salt.
func TestSessionNamesAreApart(t *testing.T) {
	call, req := sessionRequest(t, `{"session_id":"a"}`)
	seen := map[uint64]string{}
	for _, p := range []routing.Prompt{{}, {Model: "m"}, {Model: "n"}, {LoRA: "m"}, {Salt: "m"}, {ExtraKey: "m"}, {Model: "m", LoRA: "m"}} {
		name := fmt.Sprintf("%+v", p)
		k, _ := sessionNamed(call, req, p)
		require.Empty(t, seen[k], name)
		seen[k] = name
	}
}

// FuzzAppendCompact compares with the standard library.
func FuzzAppendCompact(f *testing.F) {
	for _, s := range []string{
		`[]`, "[ {\"role\" :\t\"user\",\r\n \"content\": \"a b  c\"} ]", `{"a\\" : "\\\" x\"", "b": [1, 2.5e3, null, true]}`, ` "\\\\" `, `"`, `"\`, `x"\\`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := appendCompact([]byte("x"), raw, false) // what is not JSON must not panic either
		_ = compact(raw)
		var want bytes.Buffer
		if !json.Valid(raw) {
			return
		}
		require.NoError(t, json.Compact(&want, raw))
		require.Equal(t, "x"+want.String(), string(got))
		require.Equal(t, want.Len() == len(raw), compact(raw))
	})
}
