package sim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// messageAnswer is an answer of /v1/messages, or an event of its stream.
type messageAnswer struct {
	Type    string
	Content []struct{ Type, Text string }
	Stop    string `json:"stop_reason"`
	Usage   messageUsage
	Message struct{ Usage messageUsage }
	Delta   struct {
		Text string
		Stop string `json:"stop_reason"`
	}
	Error struct{ Type, Message string }
}

type messageUsage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
	Cached int `json:"cache_read_input_tokens"`
}

// agentTurn is a body of /v1/messages, and the chat that it stands for.
const (
	agentTurn = `"model":"tiny","system":[{"type":"text","text":"be"},{"type":"text","text":"brief","cache_control":{"type":"ephemeral"}}],` +
		`"tools":[{"name":"Read","description":"reads","input_schema":{"properties":{}}},{"type":"web_search_20250305","name":"web_search"}],` +
		`"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"ok"},` +
		`{"type":"tool_use","id":"1","name":"Read","input":{"path":"a"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1",` +
		`"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},{"type":"text","text":"next"}]}]`
	agentChat = `"model":"tiny","tools":[{"type":"function","function":{"name":"Read","description":"reads","parameters":{"properties":{},"type":"object"},"strict":false}}],` +
		`"messages":[{"role":"system","content":"be\nbrief"},{"role":"user","content":"go"},{"role":"assistant","content":"ok",` +
		`"tool_calls":[{"id":"1","type":"function","function":{"name":"Read","arguments":"{\"path\":\"a\"}"}}]},` +
		`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},{"role":"user","content":"next"}]`
)

// TestMessagesAreChats: a message has the tokens and the pages of its chat, streamed and counted.
func TestMessagesAreChats(t *testing.T) {
	w := startWorker(t, fast())
	chat := decode[chatAnswer](t, post(t, w, "/v1/chat/completions", `{"max_tokens":9,`+agentChat+`}`))
	whole := decode[messageAnswer](t, post(t, w, "/v1/messages", `{"max_tokens":9,`+agentTurn+`}`))
	cached := (chat.Usage.Prompt - 1) / 4 * 4
	want := messageUsage{Input: chat.Usage.Prompt - cached, Output: 9, Cached: cached}
	if whole.Usage != want || whole.Stop != "max_tokens" {
		t.Errorf("usage %+v, %q, want %+v", whole.Usage, whole.Stop, want)
	}
	if got := whole.Content[0].Text; got != chat.Choices[0].Message.Content {
		t.Errorf("answer %q, the chat's is %q", got, chat.Choices[0].Message.Content)
	}
	count := decode[messageUsage](t, post(t, w, "/v1/messages/count_tokens", `{`+agentTurn+`}`))
	if count.Input != chat.Usage.Prompt {
		t.Errorf("count_tokens is %d, want %d", count.Input, chat.Usage.Prompt)
	}
	r := post(t, w, "/v1/messages", `{"stream":true,"max_tokens":9,`+agentTurn+`}`)
	var text strings.Builder
	usage, last := messageUsage{}, ""
	for _, data := range events(r.body) {
		var e messageAnswer
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		text.WriteString(e.Delta.Text)
		switch last = e.Type; e.Type {
		case "message_start":
			usage = e.Message.Usage
		case "message_delta":
			usage.Output = e.Usage.Output
		}
	}
	if text.String() != chat.Choices[0].Message.Content || usage != want || last != "message_stop" {
		t.Errorf("stream: %q, %+v, ends with %q", text.String(), usage, last)
	}
	if strings.Contains(string(r.body), "[DONE]") {
		t.Error("the stream has OpenAI's end")
	}
}

func TestMessagesErrors(t *testing.T) {
	w := startWorker(t, fast())
	long := strings.Repeat("word ", 3000)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"no JSON":       {`{`, 400},
		"no max_tokens": {`{"model":"tiny","messages":[{"role":"user","content":"a"}]}`, 400},
		"no messages":   {`{"model":"tiny","max_tokens":1}`, 400},
		"a bad block":   {`{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":[{"type":"x"}]}]}`, 400},
		"too long":      {fmt.Sprintf(`{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, long), 400},
	} {
		r := post(t, w, "/v1/messages", c.body)
		var e messageAnswer
		if err := json.Unmarshal(r.body, &e); err != nil || r.status != c.status || e.Type != "error" || e.Error.Type != "invalid_request_error" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
