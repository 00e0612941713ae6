package chattemplate_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// TestRulesNoChat: for gpt-oss SGLang makes no chat of /v1/responses.
func TestRulesNoChat(t *testing.T) {
	for kind, want := range map[string]bool{"gpt_oss": true, "qwen3": false, "": false} {
		m, err := chattemplate.New(chattemplate.Config{
			Source: chattemplate.Source{Template: "{{ messages[0].content }}"}, Engine: chattemplate.Engine{Version: "0.5.23", ModelType: kind},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r := m.Rules(); r.NoChat != want || !r.Known {
			t.Errorf("%q: %+v", kind, r)
		}
	}
}
