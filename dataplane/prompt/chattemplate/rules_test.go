package chattemplate_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// TestRulesAreSGLangs compares with the findings of SGLang's own code. A switch of reasoning that is
// not known here is no error: such requests are left to the worker.
func TestRulesAreSGLangs(t *testing.T) {
	f, err := os.Open("testdata/rules.jsonl")
	require.NoError(t, err)
	defer f.Close()
	known := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var want struct {
			Name, Template string
			Inline         bool
			Config         *struct{ Toggle, Special string }
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &want))
		t.Run(want.Name, func(t *testing.T) {
			m, err := chattemplate.New(chattemplate.Config{
				Source: chattemplate.Source{Template: want.Template, Tokens: map[string]string{"bos_token": "<s>"}},
				Engine: chattemplate.Engine{Version: "0.5.23", ReasoningParser: "qwen3"},
			})
			require.NoError(t, err)
			r := m.Rules()
			assert.True(t, r.Known)
			assert.Equal(t, want.Inline, r.InlineSystem)
			assert.Equal(t, "<think>", r.ThinkStart)
			expected := chattemplate.Thinking{Kwarg: "enable_thinking"} // of the parser
			if c := want.Config; c != nil {
				expected = chattemplate.Thinking{Kwarg: c.Toggle, Always: c.Special == "always", Effort: c.Special == "mistral"}
			}
			if r.Thinking == (chattemplate.Thinking{}) {
				return
			}
			known++
			assert.Equal(t, expected, r.Thinking)
		})
	}
	assert.GreaterOrEqual(t, known, 18)
}

func TestRulesOfParsers(t *testing.T) {
	for parser, want := range map[string]chattemplate.Rules{
		"":            {Known: true, InlineSystem: true},
		"auto":        {InlineSystem: true, Parser: "auto"},
		"kimi_k3":     {Known: true, InlineSystem: true, Parser: "kimi_k3", NativeThinking: true},
		"deepseek-r1": {Known: true, InlineSystem: true, Parser: "deepseek-r1", ThinkStart: "<think>", ThinkEnd: "</think>", Thinking: chattemplate.Thinking{Always: true}},
	} {
		for kind, noChat := range map[string]bool{"gpt_oss": true, "qwen3": false, "": false} { // of /v1/responses
			m, err := chattemplate.New(chattemplate.Config{
				Source: chattemplate.Source{Template: "{% for m in messages %}{{ m.content }}{% endfor %}"},
				Engine: chattemplate.Engine{Version: "0.5.23", ReasoningParser: parser, ModelType: kind},
			})
			require.NoError(t, err)
			want.NoChat = noChat
			assert.Equal(t, want, m.Rules(), parser)
		}
	}
}
