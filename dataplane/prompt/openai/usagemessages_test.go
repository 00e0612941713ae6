package openai_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// TestOllamaUsage reads the usage of Ollama's answers, cut in every place.
func TestOllamaUsage(t *testing.T) {
	const answer = `{"message":{"content":"\"eval_count\":9"},"done":true,"load_duration":null,"prompt_eval_count":17,"prompt_eval_duration":null,"eval_count":4}`
	for step := 1; step < 80; step++ {
		var s openai.UsageScanner
		s.Reset(openai.APIOllama, false)
		if got, want := scanAnswer(&s, []byte(answer), func() int { return step }), (openai.Usage{PromptTokens: 17, CompletionTokens: 4, HasPrompt: true}); got != want {
			t.Fatalf("in pieces of %d: %+v, want %+v", step, got, want)
		}
	}
}

// TestMessagesUsage reads the usage of Anthropic's answers, cut in every place.
func TestMessagesUsage(t *testing.T) {
	const start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":"
	const end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n"
	for name, c := range map[string]struct {
		sse    bool
		answer string
		want   openai.Usage
	}{
		"whole": {
			false, `{"content":[{"type":"text","text":"\"input_tokens\": 7 "}],"usage":{"input_tokens":10,"output_tokens":4,"cache_read_input_tokens":90}}`,
			openai.Usage{PromptTokens: 100, CachedTokens: 90, CompletionTokens: 4, HasPrompt: true, HasCached: true},
		},
		"nothing cached": {
			false, `{"content":[],"usage":{"input_tokens":10,"output_tokens":4}}`,
			openai.Usage{PromptTokens: 10, CompletionTokens: 4, HasPrompt: true},
		},
		"all cached": {
			false, `{"content":[],"usage":{"input_tokens":0,"output_tokens":4,"cache_read_input_tokens":8}}`,
			openai.Usage{PromptTokens: 8, CachedTokens: 8, CompletionTokens: 4, HasPrompt: true, HasCached: true},
		},
		"a tool's input names tokens": {
			false, `{"content":[{"type":"tool_use","input":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3}}],"usage":{"input_tokens":10,"output_tokens":4}}`,
			openai.Usage{PromptTokens: 10, CompletionTokens: 4, HasPrompt: true},
		},
		"stream": {
			true, start + `{"input_tokens":10,"output_tokens":0,"cache_read_input_tokens":90}}}` + "\n\n" + end,
			openai.Usage{PromptTokens: 100, CachedTokens: 90, CompletionTokens: 9, HasPrompt: true, HasCached: true},
		},
		"stream without a prompt's usage": {
			true, start + `{"input_tokens":0,"output_tokens":0}}}` + "\n\n" + end, openai.Usage{CompletionTokens: 9},
		},
	} {
		for step := 1; step < 80; step++ {
			var s openai.UsageScanner
			s.Reset(openai.APIMessages, c.sse)
			if got := scanAnswer(&s, []byte(c.answer), func() int { return step }); got != c.want {
				t.Fatalf("%s, in pieces of %d: %+v, want %+v", name, step, got, c.want)
			}
		}
	}
}
