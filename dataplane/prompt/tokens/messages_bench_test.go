package tokens_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/promptcache"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
	"github.com/warmpath/warmpath/radix"
)

// agentBody is a turn of an agent's session of some 360 KB, which is 90,000 tokens of English.
func agentBody(tb testing.TB) []byte {
	tb.Helper()
	var tools, messages []any
	for i := range 20 {
		tools = append(tools, map[string]any{"name": fmt.Sprint("Tool", i), "description": strings.Repeat("It does things.\n", 60), "input_schema": map[string]any{
			"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string", "description": strings.Repeat("where ", 20)}},
		}})
	}
	messages = append(messages, map[string]any{"role": "user", "content": "Mend it."})
	for i := range 120 {
		id := fmt.Sprint("toolu_", i)
		messages = append(messages, map[string]any{"role": "assistant", "content": []any{
			map[string]any{"type": "text", "text": "Next I read the file."},
			map[string]any{"type": "tool_use", "id": id, "name": "Tool1", "input": map[string]any{"path": fmt.Sprint("a/", i)}},
		}}, map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": id, "content": fmt.Sprint(i, strings.Repeat("\n\tif err != nil { return \"x\" }", 70))},
		}})
	}
	body, err := json.Marshal(map[string]any{
		"model": "m", "max_tokens": 1024, "tools": tools, "messages": messages,
		"system": []any{map[string]any{"type": "text", "text": strings.Repeat("You are an agent. ", 500)}},
	})
	require.NoError(tb, err)
	return body
}

// cpuTime is the processor time of the process: the machine may be busy with other things.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAgentTurn takes a turn of an agent's session from its body to token ids, once as a body of
// /v1/messages and once as the chat that it stands for; the turns before are remembered. "read" is
// the part of that without template and tokenizer. WARMPATH_MODEL names the folder of a real model.
func BenchmarkAgentTurn(b *testing.B) {
	folder := os.Getenv("WARMPATH_MODEL")
	if folder == "" {
		folder = modelFolder(b, template)
	}
	s := newTestModels(b, map[string]string{"m": folder})
	s.models.WorkerUp("w", "m", tokens.Settings{Version: "0.5.23"})
	m := s.loaded(b)
	c, err := promptcache.New(promptcache.Config{Index: radix.New(radix.Config{Seed: 1}), BlockSize: func() int { return 16 }})
	require.NoError(b, err)
	rules := func(string) chattemplate.Rules { return m.Rules() }
	messages := agentBody(b)
	chat, exact, err := anthropic.AppendChat(nil, messages, rules)
	require.NoError(b, err)
	require.True(b, exact)
	for _, api := range []openai.API{openai.APIMessages, openai.APIChat} {
		for _, whole := range []bool{false, true} {
			name := api.String() + "/read"
			if whole {
				name = api.String() + "/to ids"
			}
			b.Run(name, func(b *testing.B) {
				w := tokens.NewWriter(c.NewCursor())
				var req openai.Request
				var ids []uint32
				var converted []byte
				b.SetBytes(int64(len(messages)))
				b.ReportAllocs()
				began := cpuTime()
				for b.Loop() {
					body := chat
					if api == openai.APIMessages {
						converted, _, _ = anthropic.AppendChat(converted[:0], messages, rules)
						body = converted
					}
					if err := req.Parse(api, body); err != nil {
						b.Fatal(err)
					}
					if !whole {
						continue
					}
					if ids, _, err = w.Append(ids[:0], m, &req); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(cpuTime()-began)/float64(b.N)/float64(len(messages)), "cpu-ns/byte")
			})
		}
	}
}
