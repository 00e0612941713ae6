package anthropic_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// FuzzAppendChat compares with the conversion of documents by encoding/json. Each chat must also be
// one that the router reads.
func FuzzAppendChat(f *testing.F) {
	for _, v := range vectors(f) {
		f.Add([]byte(v.Body), v.Rules)
	}
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"ty\u0070e":"text","type":"image","type":"text","text":"\ud83d\ude00"}]}]}`), "plain")
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		chat, exact, err := anthropic.AppendChat([]byte("before"), body, of(model))
		if err != nil {
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, 400, e.Status)
			return
		}
		require.Equal(t, "before", string(chat[:6]))
		chat = chat[6:]
		require.True(t, json.Valid(chat), "%s", chat)
		var req openai.Request
		if err := req.Parse(openai.APIMessages, chat); err != nil {
			var e *openai.Error
			require.True(t, errors.As(err, &e) && e.Code != "invalid_json", "%v: %s", err, chat)
		}
		document := parsed(body)
		if !exact || document == nil {
			return
		}
		want, err := json.Marshal(naiveChat(document, rules[model]))
		require.NoError(t, err)
		got := parsed(chat)
		for name := range got {
			if name != "messages" && name != "tools" {
				delete(got, name)
			}
		}
		require.Equal(t, normal(parsed(want)), normal(got), "%s\nof %s", chat, body)
	})
}
