package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
)

// session is the body of an agent's turn: tools, and so many calls with results of 2 KB.
func session(tb testing.TB, turns int) []byte {
	tb.Helper()
	var tools, messages []any
	for i := range 20 {
		tools = append(tools, map[string]any{
			"name": fmt.Sprint("Tool", i), "description": strings.Repeat("It does things.\n", 60), "input_schema": map[string]any{
				"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string", "description": strings.Repeat("where ", 20)}},
			},
		})
	}
	messages = append(messages, map[string]any{"role": "user", "content": "Mend it."})
	for i := range turns {
		id := fmt.Sprint("toolu_", i)
		messages = append(messages, map[string]any{"role": "assistant", "content": []any{
			map[string]any{"type": "text", "text": "Next I read the file."},
			map[string]any{"type": "tool_use", "id": id, "name": "Tool1", "input": map[string]any{"path": fmt.Sprint("a/", i)}},
		}}, map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": id, "content": fmt.Sprint(i, strings.Repeat("\n\tif err != nil { return \"x\" }", 70))},
		}})
	}
	body, err := json.Marshal(map[string]any{
		"model": "m", "max_tokens": 1024, "stream": true, "tools": tools, "messages": messages,
		"system": []any{map[string]any{"type": "text", "text": strings.Repeat("You are an agent. ", 500)}},
	})
	require.NoError(tb, err)
	return body
}

// BenchmarkAppendChat converts bodies of agents' sessions.
func BenchmarkAppendChat(b *testing.B) {
	for _, turns := range []int{1, 20, 150} {
		body := session(b, turns)
		b.Run(fmt.Sprintf("turns=%d/bytes=%d", turns, len(body)), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var chat []byte
			for b.Loop() {
				chat, _, _ = anthropic.AppendChat(chat[:0], body, of("qwen3"))
			}
		})
	}
}
