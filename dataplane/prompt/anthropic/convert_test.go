package anthropic_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// rules are the models of testdata/convert.py.
var rules = map[string]chattemplate.Rules{
	"plain":  {Known: true},
	"inline": {Known: true, InlineSystem: true},
	"qwen3": {
		Known: true, InlineSystem: true, Parser: "qwen3", ThinkStart: "<think>", ThinkEnd: "</think>",
		Thinking: chattemplate.Thinking{Kwarg: "enable_thinking"},
	},
	"deepseek-r1": {
		Known: true, Parser: "deepseek-r1", ThinkStart: "<think>", ThinkEnd: "</think>",
		Thinking: chattemplate.Thinking{Always: true},
	},
	"mistral": {
		Known: true, Parser: "mistral", ThinkStart: "[THINK]", ThinkEnd: "[/THINK]",
		Thinking: chattemplate.Thinking{Effort: true},
	},
}

func of(name string) chattemplate.RulesOf {
	return func(string) chattemplate.Rules { return rules[name] }
}

// vector is a line of testdata/vectors.jsonl.
type vector struct {
	Name, Rules, Body, Refused string
	Chat                       map[string]any
}

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	f, err := os.Open("testdata/vectors.jsonl")
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		all = append(all, v)
	}
	require.NoError(t, lines.Err())
	return all
}

// TestConversionIsSGLangs compares with the chats of SGLang's own code.
func TestConversionIsSGLangs(t *testing.T) {
	exactly := 0
	for _, v := range vectors(t) {
		t.Run(v.Name+"/"+v.Rules, func(t *testing.T) {
			chat, exact, err := anthropic.AppendChat(nil, []byte(v.Body), of(v.Rules))
			require.NoError(t, err)
			require.True(t, json.Valid(chat), "%s", chat)
			if v.Refused != "" {
				return // nor does an engine see its ids
			}
			if v.Name == "search result" {
				assert.False(t, exact)
				return
			}
			require.True(t, exact)
			exactly++
			var got map[string]any
			require.NoError(t, json.Unmarshal(chat, &got), "%s", chat)
			assert.Equal(t, normal(v.Chat), normal(likeSGLang(got)), "%s", chat)
		})
	}
	assert.Greater(t, exactly, 150)
}

// likeSGLang brings a chat into the form of the vectors: arguments are texts, images are those of
// the body, and defaults are written out.
func likeSGLang(chat map[string]any) map[string]any {
	out := map[string]any{}
	for _, name := range []string{"messages", "tools", "tool_choice", "chat_template_kwargs"} {
		if v, ok := chat[name]; ok {
			out[name] = v
		}
	}
	if kwargs, ok := out["chat_template_kwargs"].(map[string]any); ok {
		if effort, ok := kwargs["reasoning_effort"]; ok {
			out["reasoning_effort"] = effort
			if delete(kwargs, "reasoning_effort"); len(kwargs) == 0 {
				delete(out, "chat_template_kwargs")
			}
		}
	}
	if out["tools"] == nil {
		delete(out, "tool_choice")
	} else if out["tool_choice"] == nil {
		out["tool_choice"] = "auto"
	}
	return out
}

// normal replaces the parts of a chat that are equal in another form.
func normal(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		if arguments, ok := v["arguments"].(string); ok {
			var parsed any
			if json.Unmarshal([]byte(arguments), &parsed) == nil {
				v["arguments"] = parsed
			}
		}
		if f, ok := v["function"].(map[string]any); ok && v["defer_loading"] != nil {
			delete(f, "defer_loading") // a validator of chats copies it
		}
		if v["type"] == "image_url" {
			return map[string]any{"type": "image_url"}
		}
		for k := range v {
			v[k] = normal(v[k])
		}
	}
	return v
}

// TestClaudeCode reads the shape of a request of Claude Code: its system blocks with a billing
// header, its reminders and its system message behind the first turn.
func TestClaudeCode(t *testing.T) {
	raw, err := os.ReadFile("testdata/claude_code.json")
	require.NoError(t, err)
	var recorded struct{ Body json.RawMessage }
	require.NoError(t, json.Unmarshal(raw, &recorded))
	for model, roles := range map[string][]string{
		"qwen3":       {"system", "user", "system", "assistant", "tool"},
		"deepseek-r1": {"system", "user", "assistant", "tool"},
	} {
		chat, exact, err := anthropic.AppendChat(nil, recorded.Body, of(model))
		require.NoError(t, err)
		assert.True(t, exact)
		var got struct {
			Messages []struct{ Role string }
			Tools    []any
			Kwargs   map[string]any `json:"chat_template_kwargs"`
			User     string
		}
		require.NoError(t, json.Unmarshal(chat, &got))
		var seen []string
		for _, m := range got.Messages {
			seen = append(seen, m.Role)
		}
		assert.Equal(t, roles, seen)
		assert.Len(t, got.Tools, 24)
		assert.Equal(t, "high", got.Kwargs["reasoning_effort"])
		assert.Contains(t, got.User, "session_id")
	}
}

func TestMalformedBodies(t *testing.T) {
	for name, body := range map[string]string{
		"empty": "", "no object": `[]`, "cut": `{"messages":[`, "behind": `{"messages":[]} x`, "NaN": `{"messages":[],"a":NaN}`,
		"control character": "{\"messages\":[\"\n\"]}", "not UTF-8": "{\"messages\":[\"\xff\"]}", "no messages": `{"model":"m"}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := anthropic.AppendChat(nil, []byte(body), of("plain"))
			var e *openai.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, 400, e.Status)
			var got struct {
				Type  string
				Error struct{ Type, Message string }
			}
			require.NoError(t, json.Unmarshal(anthropic.AppendError(nil, e), &got))
			assert.Equal(t, "error", got.Type)
			assert.Equal(t, "invalid_request_error", got.Error.Type)
			assert.Equal(t, e.Error(), got.Error.Message)
		})
	}
}
