package responses_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// TestAppendBody: a converted body has what routing reads of a chat.
func TestAppendBody(t *testing.T) {
	var c responses.Converter
	known := responses.Dialect{}
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
		{"escaped keys", `{"input":"a","input\u005fids":[1],"\u006dodel":"m"}`, `{"messages":[{"role":"user","content":"\"a\""}],"\u006dodel":"m"}`, known, false},
		{
			"an image", `{"input":[{"role":"user","content":[{"type":"input_text","text":"see"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"crc32c:5b61421a"}}]}]}`, known, true,
		},
		{"nothing", `{}`, `{"messages":[{"role":"user","content":""}]}`, known, false},
		{"no chat", `{"input":"a"}`, `{"messages":[{"role":"user","content":"a"}]}`, responses.Dialect{NoChat: true}, false},
		{
			"one system message", `{"instructions":"i","input":"a"}`,
			`{"messages":[{"role":"system","content":"i"},{"role":"user","content":"a"}]}`,
			responses.Dialect{},
			true,
		},
		{
			"two system messages", `{"instructions":"i","input":[{"role":"developer","content":"d"},{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"system","content":"i\n\nDeveloper instructions:\nd"},{"role":"user","content":"a"}]}`,
			responses.Dialect{},
			true,
		},
	}
	for _, tt := range tests {
		_, err := c.Read([]byte(tt.body))
		require.NoError(t, err, tt.name)
		got, exact, doubtful := c.AppendBody(nil, nil, tt.dialect)
		require.Equal(t, tt.want, string(got), tt.name)
		require.Equal(t, tt.exact, exact, tt.name)
		require.Equal(t, tt.name == "two system messages", doubtful, tt.name)
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

// TestCodex: the request of a real client is known exactly.
func TestCodex(t *testing.T) {
	raw, err := os.ReadFile("testdata/codex.json")
	require.NoError(t, err)
	var recorded struct{ Body json.RawMessage }
	require.NoError(t, json.Unmarshal(raw, &recorded))
	var c responses.Converter
	h, err := c.Read(recorded.Body)
	require.NoError(t, err)
	require.True(t, h.Tools && !h.Store)
	for _, inline := range []bool{false, true} {
		chat, exact, doubtful := c.AppendBody(nil, nil, responses.Dialect{InlineSystem: inline})
		require.True(t, exact && doubtful)
		var req openai.Request
		require.NoError(t, req.Parse(openai.APIResponses, chat))
		require.False(t, req.Multimodal)
		require.NotContains(t, string(req.Tools), "multi_agent", "SGLang shows tools in namespaces to muse only")
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
