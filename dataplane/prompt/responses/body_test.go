package responses_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// TestAppendBody: a converted body has what routing reads of a chat.
func TestAppendBody(t *testing.T) {
	var c responses.Converter
	known := responses.Dialect{Known: true}
	tests := []struct {
		name, body, want string
		dialect          responses.Dialect
		exact            bool
	}{
		{
			"all", `{"model":"m","input":"a","stream":true,"max_output_tokens":5,"request_id":"resp_1","n":7,"messages":[],"cache_salt":"s"}`,
			`{"messages":[{"role":"user","content":"a"}],"model":"m","stream":true,"max_completion_tokens":5,"rid":"resp_1","cache_salt":"s"}`,
			known, true,
		},
		{"id of another type", `{"input":"a","request_id":5}`, `{"messages":[{"role":"user","content":"a"}]}`, known, true},
		{
			"refused", `{"input":[{"type":"item_reference","id":"x"}],"model":"m"}`,
			`{"messages":[{"role":"user","content":"[{\"type\":\"item_reference\",\"id\":\"x\"}]"}],"model":"m"}`, known, false,
		},
		{"nothing", `{}`, `{"messages":[{"role":"user","content":""}]}`, known, false},
		{"no chat", `{"input":"a"}`, `{"messages":[{"role":"user","content":"a"}]}`, responses.Dialect{Known: true, NoChat: true}, false},
		{
			"one system message", `{"instructions":"i","input":"a"}`,
			`{"messages":[{"role":"system","content":"i"},{"role":"user","content":"a"}]}`, responses.Dialect{}, true,
		},
		{
			"two system messages", `{"instructions":"i","input":[{"role":"developer","content":"d"},{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"system","content":"i\n\nDeveloper instructions:\nd"},{"role":"user","content":"a"}]}`, responses.Dialect{}, false,
		},
	}
	for _, tt := range tests {
		_, err := c.Read([]byte(tt.body))
		require.NoError(t, err, tt.name)
		got, exact := c.AppendBody(nil, nil, tt.dialect)
		require.Equal(t, tt.want, string(got), tt.name)
		require.Equal(t, tt.exact, exact, tt.name)
		var req openai.Request
		require.NoError(t, req.Parse(openai.APIChat, got), tt.name)
	}
	for _, body := range []string{"", "[]", "{", `{"input":}`, `{"a":1} x`} {
		_, err := c.Read([]byte(body))
		var e *openai.Error
		require.ErrorAs(t, err, &e, body)
		require.Equal(t, 400, e.Status)
	}
}

// TestRead: the head of a body.
func TestRead(t *testing.T) {
	var c responses.Converter
	h, err := c.Read([]byte(`{"model":"m","input":"a","previous_response_id":"resp_1","request_id":"resp_2","store":false,"background":true,"tools":[{}]}`))
	require.NoError(t, err)
	require.Equal(t, responses.Head{Model: "m", Previous: "resp_1", ID: "resp_2", Background: true, Input: []byte(`"a"`), Tools: true}, h)
	h, err = c.Read([]byte(`{"input":[],"model":5,"tools":[{}],"tool_choice":"none","store":null}`))
	require.NoError(t, err)
	require.Equal(t, responses.Head{Input: []byte(`[]`)}, h)
	h, err = c.Read([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, responses.Head{Store: true}, h)
}
