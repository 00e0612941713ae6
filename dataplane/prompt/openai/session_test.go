package openai_test

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestSession(t *testing.T) {
	const uuid = "54c1eb09-bc4c-4d2f-98eb-6d2ab2d5e2fe"
	long := strings.Repeat("x", 513)
	tests := []struct {
		name, fields string
		want         string
		by           openai.SessionField
	}{
		{"none", `"user":"u","metadata":{"user_id":"u"},"safety_identifier":"s"`, "", openai.NoSession},
		{"session_id", `"session_id":"a","metadata":{"session_id":"b"}`, "a", openai.SessionByID},
		{"session_params", `"session_params":{"id":"a\u0062"},"conversation":"c"`, "ab", openai.SessionByID},
		{"long session_id", `"session_id":"` + long + `","conversation":"c"`, "", openai.NoSession},
		{"Claude Code before 2.1.86", `"metadata":{"user_id":"user_0a_account__session_` + uuid + `"},"prompt_cache_key":"k"`, uuid, openai.SessionByMetadata},
		{"Claude Code", `"metadata":{"user_id":"{\"device_id\":\"d\",\"account_uuid\":\"\",\"session_id\":\"` + uuid + `\"}"}`, uuid, openai.SessionByMetadata},
		{"metadata.session_id", `"metadata":{"session_id":"m","user_id":"u_session_x"},"conversation":"c"`, "m", openai.SessionByMetadata},
		{"no JSON in user_id", `"metadata":{"user_id":"{\"session_id\":\"x\""}`, "", openai.NoSession},
		{"no string in user_id", `"metadata":{"user_id":"{\"session_id\":7}"}`, "", openai.NoSession},
		{"escapes within escapes", `"metadata":{"user_id":"{\"session_id\":\"a\\n\"}"}`, "", openai.NoSession},
		{"a list as metadata", `"metadata":[1],"conversation":"c"`, "c", openai.SessionByConversation},
		{"conversation", `"conversation":"conv_1","previous_response_id":"resp_1","prompt_cache_key":"k"`, "conv_1", openai.SessionByConversation},
		{"conversation's id", `"conversation":{"id":"conv_2"},"previous_response_id":"resp_1"`, "conv_2", openai.SessionByConversation},
		{"no conversation", `"conversation":null,"previous_response_id":"resp_1","prompt_cache_key":"k"`, "resp_1", openai.SessionByResponse},
		{"Codex", `"previous_response_id":null,"prompt_cache_key":"` + uuid + `","store":false`, uuid, openai.SessionByCacheKey},
		{"long cache key", `"prompt_cache_key":"` + long + `"`, "", openai.NoSession},
		{"long metadata", `"metadata":{"a":"` + strings.Repeat("x", 17<<10) + `","session_id":"m"}`, "", openai.NoSession},
		{"the last of equal keys", `"conversation":"a","conversation":"b"`, "b", openai.SessionByConversation},
		{"empty names", `"session_id":"","conversation":"","prompt_cache_key":"k"`, "k", openai.SessionByCacheKey},
		{"numbers", `"conversation":1,"previous_response_id":2,"prompt_cache_key":3`, "", openai.NoSession},
	}
	var r openai.Request
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			for api, rest := range map[openai.API]string{
				openai.APIOther: `"model":"m"`, openai.APIChat: `"messages":[{"role":"user","content":"a"}]`, openai.APIGenerate: `"text":"a"`, openai.APICompletions: `"prompt":"a"`,
			} {
				if err := r.Parse(api, []byte("{"+c.fields+","+rest+"}")); err != nil {
					t.Fatal(err)
				}
				if string(r.Session) != c.want || r.SessionBy != c.by {
					t.Errorf("API %d: session %q by %d, want %q by %d", api, r.Session, r.SessionBy, c.want, c.by)
				}
			}
		})
	}
}
