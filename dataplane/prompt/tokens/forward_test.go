package tokens_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

func TestForwardable(t *testing.T) {
	const sys, user, bot = `{"role":"system","content":"s"}`, `{"role":"user","content":"u"}`, `{"role":"assistant","content":"a"}`
	tests := []struct {
		name, body string
		want       bool
	}{
		{"one question", `{"messages":[` + user + `]}`, true},
		{"turns behind a system prompt", `{"messages":[` + sys + `,` + user + `,` + bot + `,` + user + `],"max_tokens":5,"stream":true}`, true},
		{"no question", `{"messages":[` + sys + `]}`, false},
		{"an answer to go on with", `{"messages":[` + user + `,` + bot + `]}`, false},
		{"two questions", `{"messages":[` + user + `,` + user + `]}`, false},
		{"a late system prompt", `{"messages":[` + user + `,` + bot + `,` + sys + `,` + user + `]}`, false},
		{"tools", `{"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f"}}]}`, false},
		{"template arguments", `{"messages":[` + user + `],"chat_template_kwargs":{"enable_thinking":false}}`, false},
		{"a grammar", `{"messages":[` + user + `],"response_format":{"type":"json_object"}}`, false},
		{"parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"u"}]}]}`, false},
		{"no content", `{"messages":[{"role":"user","content":null}]}`, false},
		{"reasoning", `{"messages":[` + user + `,{"role":"assistant","content":"a","reasoning_content":"r"},` + user + `]}`, false},
		{"a name", `{"messages":[{"role":"user","content":"u","name":"n"}]}`, false},
		{"ids of the client's own", `{"messages":[` + user + `],"input_ids":[1]}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, tokens.Forwardable(parse(t, openai.APIChat, test.body)))
		})
	}
}

func TestAppendField(t *testing.T) {
	var got struct {
		InputIDs []uint32 `json:"input_ids"`
	}
	ids := []uint32{0, 7, 128_000, 4_294_967_295}
	require.NoError(t, json.Unmarshal(append(tokens.AppendField([]byte("{"), ids), '}'), &got))
	assert.Equal(t, ids, got.InputIDs)
	assert.Equal(t, `"input_ids":[]`, string(tokens.AppendField(nil, nil)))
}
