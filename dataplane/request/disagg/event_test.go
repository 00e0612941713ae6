package disagg

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestJudgeStream(t *testing.T) {
	const generate, chat, completions, messages = openai.APIGenerate, openai.APIChat, openai.APICompletions, openai.APIMessages
	tests := []struct {
		name    string
		api     openai.API
		in      string
		whole   bool
		verdict Verdict
		failure Failure
	}{
		{"nothing yet", generate, "", false, More, Failure{}},
		{"nothing at all", generate, "", true, Failed, NoEvent},
		{"half an event", generate, `data: {"err`, false, More, Failure{}},
		{"half an event and no more", generate, `data: {"err`, true, Failed, NoAnswer},
		{"comment first", generate, ": ping\n\ndata: {\"meta_info\":{\"id\":\"a\"}}\n", false, Good, Failure{}},
		{"named event", messages, "event: response.created\ndata: {\"type\":\"response.created\"}\n", false, Good, Failure{}},
		{"text", generate, `data: {"text":"x","meta_info":{"id":"a","finish_reason":null}}` + "\n", false, Good, Failure{}},
		{"chat", chat, `data: {"id":"1","choices":[{"delta":{"content":"\"error\":{}"},"finish_reason":null}]}` + "\n\n", false, Good, Failure{}},
		{"finished at once", generate, `data: {"text":"","meta_info":{"finish_reason":{"type":"length","length":1}}}` + "\n", false, Good, Failure{}},
		{"aborted by somebody", generate, `data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"Aborted by AbortReq.","status_code":null}}}` + "\n", false, Good, Failure{}},
		{"aborted by the engine", generate, `data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"Decode handshake failed","status_code":500,"err_type":null}}}` + "\n", false, Failed, Failure{Status: 500, Transfer: true}},
		{"aborted for the client", generate, `data: {"meta_info": {"finish_reason": {"type": "abort", "message": "too long", "status_code": 400}}}` + "\r\n", false, Failed, Failure{Status: 400, Transfer: false}},
		{"error", generate, `data: {"error":{"object":"error","message":"x","type":"InternalServerError","param":null,"code":500}}` + "\n\ndata: [DONE]\n\n", false, Failed, Failure{Status: 500, Transfer: false}},
		{"error without a code", generate, `data: {"error": "boom"}` + "\n", false, Failed, Failure{Status: 500, Transfer: false}},
		{"error with words for a code", generate, `data: {"error":{"code":"upstream_error"}}` + "\n", false, Failed, Failure{Status: 500, Transfer: false}},
		{"error with a code in quotes", generate, `data:{"error":{"code":"400"}}` + "\n", false, Failed, Failure{Status: 400, Transfer: false}},
		{"client's error", generate, `data: {"error":{"message":"bad","type":"invalid_request_error","code":400,"retryable":false}}` + "\n", false, Failed, Failure{Status: 400, Transfer: false}},
		{"no error", generate, `data: {"error":null,"meta_info":{"id":"a"}}` + "\n", false, Good, Failure{}},
		{"error at the end of what came", generate, `data: {"error":{"code":503}}`, true, Failed, Failure{Status: 503, Transfer: false}},
		{"long first event", generate, "data: {\"text\":\"" + strings.Repeat("x", MaxEvent), false, Good, Failure{}},
		{"no JSON", generate, "data: one\n", false, Failed, NoAnswer},
		{"nothing but the end", generate, "data: [DONE]\n", false, Failed, NoEvent},
		{"nothing but a comment", generate, ": ping\n\n", true, Failed, NoEvent},
		{"the body of a refusal", generate, `data: {"object":"error","message":"x","type":"NotFound","param":null,"code":404}` + "\n", false, Failed, Failure{Status: 404, Transfer: false}},
		{"a message begins", messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n", false, More, Failure{}},
		{"a message's first text", messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: content_block_start\ndata: {\"type\":\"content_block_start\"}\n", false, Good, Failure{}},
		{"a message fails", messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n", false, Failed, Failure{Status: 503, Transfer: false}},
		{"an empty object", chat, "data: {}\n", false, Failed, NoAnswer},
		{"null", chat, "data: null\n", false, Failed, NoAnswer},
		{"a list", generate, "data: []\n", false, Failed, NoAnswer},
		{"another object", chat, "data: {\"status\":\"ok\"}\n", false, Failed, NoAnswer},
		{"no list of choices", chat, `data: {"id":"1","choices":null}` + "\n", false, Failed, NoAnswer},
		{"no object of choices", chat, `data: {"id":"1","choices":[null]}` + "\n", false, Failed, NoAnswer},
		{"the request, sent back", chat, `data: {"model":"m","messages":[],"stream":true,"rid":"wp-1"}` + "\n", false, Failed, NoAnswer},
		{"the request of text", generate, `data: {"text":"x","stream":true,"rid":"wp-1"}` + "\n", false, Failed, NoAnswer},
		{"the request of tokens", generate, `data: {"input_ids":[1],"rid":"wp-1"}` + "\n", false, Failed, NoAnswer},
		{"an event of another API", messages, `data: {"choices":[]}` + "\n", false, Failed, NoAnswer},
		{"tokens without text", generate, `data: {"output_ids":[1],"meta_info":{"id":"a"}}` + "\n", false, Good, Failure{}},
		{"only the usage", chat, `data: {"id":"1","choices":[],"usage":{"prompt_tokens":1}}` + "\n", false, Good, Failure{}},
		{"reasoning", chat, `data: {"id":"1","choices":[{"index":0,"delta":{"reasoning_content":"a"}}]}` + "\n", false, Good, Failure{}},
		{"a call of a tool", chat, `data: {"id":"1","choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}` + "\n", false, Good, Failure{}},
		{"choices with spaces", chat, `data: { "id" : "1", "choices" : [ {"delta": {}} ] }` + "\r\n", false, Good, Failure{}},
		{"a number that is none in JSON", chat, `data: {"choices":[{"index":0,"delta":{},"logprob":-Infinity}]}` + "\n", false, Good, Failure{}},
		{"an empty event first", chat, "data:\n\ndata: {\"choices\":[{\"delta\":{}}]}\n", false, Good, Failure{}},
		{"a ping", messages, "event: ping\ndata: {\"type\": \"ping\"}\n", false, Good, Failure{}},
		{"data of two lines", generate, "data: {\"text\":\ndata: \"a\"}\n", false, Good, Failure{}},
		{"data of one line or two", generate, "data: {\"text\":\n", false, More, Failure{}},
		{"half an object", generate, "data: {\"text\":\n\n", false, Failed, NoAnswer},
		{"half a choice", chat, "data: {\"choices\":[{\n\n", false, Failed, NoAnswer},
		{"half a choice and no more", chat, "data: {\"choices\":[{\"", true, Failed, NoAnswer},
		{"a choice without its line's end", chat, "data: {\"choices\":[{\"delta\":{}}]}", true, Good, Failure{}},
		{"no choice yet", chat, "data: {\"choices\":[]}\n\n", false, More, Failure{}},
		{"no choice but the end", chat, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n", false, Failed, NoEvent},
		{"no choice but the end of what came", completions, "data: {\"choices\":[ ]}\n\ndata: {\"choices\":[]}\n\n", true, Failed, NoEvent},
		{"no choice at first", chat, "data: {\"choices\":[]}\n\ndata: {\"choices\":[{\"delta\":{}}]}\n\n", false, Good, Failure{}},
		{"a long time without a choice", chat, strings.Repeat("data: {\"choices\":[]}\n\n", MaxEvent/20), false, Good, Failure{}},
		{"a choice without a member", chat, "data: {\"choices\":[{}]}\n", false, Failed, NoAnswer},
		{"a text in a chat", chat, "data: {\"choices\":[{\"text\":\"a\"}]}\n", false, Failed, NoAnswer},
		{"a text", completions, "data: {\"choices\":[{\"index\":0,\"text\":\"\"}]}\n", false, Good, Failure{}},
		{"text and no more", generate, "data: {\"text\":\"x\"}\n", false, Failed, NoAnswer},
		{"text and nothing about it", generate, "data: {\"text\":\"x\",\"meta_info\":{}}\n", false, Failed, NoAnswer},
		{"long text of nobody's", generate, "data: " + strings.Repeat("x", MaxEvent), false, Failed, NoAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, f := JudgeStream(tt.api, []byte(tt.in), tt.whole)
			assert.Equal(t, tt.verdict, v)
			assert.Equal(t, tt.failure, f)
		})
	}
}

func TestJudgeJSON(t *testing.T) {
	tests := []struct {
		name, in string
		whole    bool
		verdict  Verdict
		failure  Failure
	}{
		{"an answer", `{"text":"xxxxxxxxxx","meta_info":{`, false, Good, Failure{}},
		{"a chat", `{"id":"1","object":"chat.completion",`, false, Good, Failure{}},
		{"a chat with its object first", `{"object":"chat.completion","id":`, false, Good, Failure{}},
		{"a list", `[{"error":{}}]`, false, Good, Failure{}},
		{"nothing", "", true, Good, Failure{}},
		{"an error", `{"error":{"message":"x","code":401}}`, false, Failed, Failure{Status: 401, Transfer: false}},
		{"an error of words", ` { "error" : "x" } `, false, Failed, Failure{Status: 500, Transfer: false}},
		{"first bytes that tell nothing", `{"er`, false, Good, Failure{}},
		{"a short one", `{"ok":1}`, false, Good, Failure{}},
		{"half an error", `{"error":{"mess`, false, More, Failure{}},
		{"half an error and no more", `{"error":{"mess`, true, Good, Failure{}},
		{"no error", `{"error":null,"text":"x"}`, false, Good, Failure{}},
		{"SGLang's refusal", `{"object":"error","message":"x","type":"NotFound","param":null,"code":404}`, false, Failed, Failure{Status: 404, Transfer: false}},
		{"Anthropic's", `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, false, Failed, Failure{Status: 429, Transfer: false}},
		{"a message", `{"type":"message","content":["xx`, false, Good, Failure{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, f := JudgeJSON([]byte(tt.in), tt.whole)
			assert.Equal(t, tt.verdict, v)
			assert.Equal(t, tt.failure, f)
		})
	}
}

func TestJudgeStreamDoesNotAllocate(t *testing.T) {
	p := []byte(`data: {"text":"x","output_ids":[1,2,3],"meta_info":{"id":"a","finish_reason":null,"prompt_tokens":9}}` + "\n\n")
	assert.Zero(t, testing.AllocsPerRun(100, func() { _, _ = JudgeStream(openai.APIGenerate, p, false) }))
}

// FuzzJudgeStream compares with a reader that splits lines and decodes JSON.
func FuzzJudgeStream(f *testing.F) {
	f.Add([]byte("data: {\"error\":{\"code\":500}}\n\n"))
	f.Add([]byte(": x\n\ndata: {\"meta_info\":{\"finish_reason\":{\"type\":\"abort\",\"status_code\":500}}}\n"))
	f.Add([]byte("data: {\"meta_info\":{\"id\":\"a\"}}\n"))
	f.Fuzz(func(t *testing.T, p []byte) {
		v, got := JudgeStream(openai.APIGenerate, p, true)
		// A verdict on a part of a stream is the verdict on the whole stream.
		for n := range p {
			if early, failure := JudgeStream(openai.APIGenerate, p[:n], false); early != More {
				require.Equal(t, v, early)
				require.Equal(t, got, failure)
				break
			}
		}
		if len(p) >= MaxEvent || bytes.Contains(p, messageStart) || bytes.Contains(p, []byte("[DONE]")) || bytes.Contains(p, []byte(`"object"`)) ||
			bytes.IndexByte(p, '\r') >= 0 { // which ends a line, too
			return
		}
		var first []byte
		found := false
		for line := range bytes.SplitSeq(p, newline) {
			if data, ok := bytes.CutPrefix(line, dataPrefix); ok {
				first, found = bytes.TrimSpace(data), true
				break
			}
		}
		if !found {
			require.Equal(t, Failed, v)
			return
		}
		var doc struct {
			Error any `json:"error"`
		}
		// What the two read differently by design: folded and repeated names, bytes that are no text,
		// two kinds of failure, and an error of NoAnswer's status.
		if !json.Valid(first) || !utf8.Valid(first) || json.Unmarshal(first, &doc) != nil ||
			strings.Contains(string(first), `\u`) || strings.Count(strings.ToLower(string(first)), `"error"`) > 1 ||
			!strings.Contains(string(first), `"error"`) || strings.Contains(string(first), "finish_reason") || got == NoAnswer && bytes.Contains(first, []byte("502")) {
			return
		}
		require.Equal(t, doc.Error != nil, v == Failed && got != NoAnswer)
	})
}

// FuzzJudgeJSON: an error that is the first member of a document is found, and a verdict on a part of
// a document is the verdict on the whole.
func FuzzJudgeJSON(f *testing.F) {
	f.Add([]byte(`{"error":{"code":500}}`))
	f.Add([]byte(`{"object":"error","code":404}`))
	f.Add([]byte(`{"text":"a","meta_info":{}}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		v, got := JudgeJSON(p, true)
		if len(p) >= MaxEvent || !json.Valid(p) || bytes.Contains(p, []byte("finish_reason")) {
			return
		}
		for n := range p {
			if early, failure := JudgeJSON(p[:n], false); early != More && n >= 32 && bytes.Count(p, []byte(" ")) == 0 {
				require.Equal(t, v, early, "%q", p[:n])
				require.Equal(t, got, failure)
			}
		}
		d := json.NewDecoder(bytes.NewReader(p))
		if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
			require.Equal(t, Good, v)
			return
		}
		if !bytes.Contains(p, []byte(`\`)) && bytes.HasPrefix(bytes.TrimSpace(p), []byte(`{"error":{`)) && bytes.Count(p, []byte(`"error"`)) == 1 {
			require.Equal(t, Failed, v)
		}
	})
}

func TestJudgeAnswer(t *testing.T) {
	none := Failure{Status: 502}
	tests := []struct {
		name    string
		api     openai.API
		in      string
		whole   bool
		verdict Verdict
		failure Failure
	}{
		{"an empty object", openai.APIChat, `{}`, false, Failed, none},
		{"another object", openai.APIChat, `{"detail":"Not Found"}`, false, Failed, none},
		{"its member inside another", openai.APIChat, `{"detail":{"choices":[]}}`, false, Failed, none},
		{"half of another object", openai.APIChat, `{"detail":"Not F`, false, More, Failure{}},
		{"and no more", openai.APIChat, `{"detail":"Not F`, true, Failed, none},
		{"null", openai.APIChat, `null`, false, Failed, none},
		{"text", openai.APICompletions, `Service ready`, false, Failed, none},
		{"a list", openai.APIMessages, `[{"content":[]}]`, false, Failed, none},
		{"an empty list of answers", openai.APIGenerate, ` [ ]`, false, Failed, none},
		{"white space", openai.APIGenerate, "\n", false, More, Failure{}},
		{"a chat", openai.APIChat, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"`, false, Good, Failure{}},
		{"a message", openai.APIMessages, `{"id":"1","type":"message","content":[{"type":"te`, false, Good, Failure{}},
		{"a message of nothing", openai.APIMessages, `{"id":"1","type":"message","content":[],"stop_reason":"end_turn","usage":{"input_tokens":3}}`, true, Good, Failure{}},
		{"nothing for a message", openai.APIMessages, `{"id":"1","type":"message","content":[],"stop_reason":null,"usage":null}`, true, Failed, none},
		{"a block without its kind", openai.APIMessages, `{"id":"1","type":"message","content":[{}],"usage":{}}`, true, Failed, none},
		{"a response", openai.APIResponses, `{"id":"1","object":"response","created_at":1.5,"output":[`, false, More, Failure{}},
		{"a response's item", openai.APIResponses, `{"id":"1","output":[{"id":"rs_1","summary":[`, false, Good, Failure{}},
		{"a response of nothing", openai.APIResponses, `{"id":"1","object":"response","output":[],"status":"completed","usage":{"output_tokens":1}}`, true, Good, Failure{}},
		{"nothing for a response", openai.APIResponses, `{"id":"1","object":"response","output":[],"status":"completed"}`, true, Failed, none},
		{"a completion behind a long member", openai.APICompletions, `{"x":"` + strings.Repeat("x", MaxEvent) + `","choices":[{"text":""}]}`, true, Good, Failure{}},
		{"an answer", openai.APIGenerate, `{"text":"a","meta_info":{"finish_reason":{"type":"length","length":1},`, false, Good, Failure{}},
		{"half an answer", openai.APIGenerate, `{"text":"a`, false, More, Failure{}},
		{"half an answer and no more", openai.APIGenerate, `{"text":"a`, true, Failed, none},
		{"answers", openai.APIGenerate, `[{"text":"a","meta_info":{"finish_reason":{"type":"stop"}}},`, false, Good, Failure{}},
		{"a long answer", openai.APIGenerate, `{"text":"` + strings.Repeat("x", MaxEvent), false, More, Failure{}},
		{"a longer one", openai.APIGenerate, `{"text":"` + strings.Repeat("x", MaxBegin), false, Good, Failure{}},
		{"aborted", openai.APIGenerate, `{"text":"a","meta_info":{"finish_reason":{"type":"abort","message":"x","status_code":503}}}`, false, Failed, Failure{Status: 503}},
		{"half of its reason", openai.APIGenerate, `{"text":"a","meta_info":{"finish_reason":{"type":"abort","mess`, false, More, Failure{}},
		{"aborted on request", openai.APIGenerate, `{"text":"a","meta_info":{"finish_reason":{"type":"abort","status_code":null}}}`, false, Good, Failure{}},
		{"null for choices", openai.APIChat, `{"choices":null,"usage":{}}`, false, Failed, none},
		{"a text for choices", openai.APIChat, `{"choices":"none"}`, false, Failed, none},
		{"words for choices", openai.APICompletions, `{"choices":["a"]}`, false, Failed, none},
		{"an error behind its choices", openai.APIChat, `{"choices":null,"error":{"code":503}}`, false, Failed, none},
		{"a state", openai.APIResponses, `{"status":"ok"}`, false, Failed, none},
		{"text for content", openai.APIMessages, `{"content":"Not found"}`, false, Failed, none},
		{"the request, sent back", openai.APIGenerate, `{"text":"x","sampling_params":{},"rid":"wp-1"}`, false, Failed, none},
		{"text and no more", openai.APIGenerate, `{"text":"x"}`, true, Failed, none},
		{"texts and no more", openai.APIGenerate, `[{"text":"x"},{"text":"y"}]`, true, Failed, none},
		{"text and nothing about it", openai.APIGenerate, `{"text":"x","meta_info":{}}`, true, Failed, none},
		{"no choice", openai.APIChat, `{"id":"1","choices":[],"usage":{"prompt_tokens":3}}`, true, Failed, none},
		{"a choice of nothing", openai.APIChat, `{"id":"1","choices":[{}]}`, true, Failed, none},
		{"a message of no member", openai.APIChat, `{"id":"1","choices":[{"index":0,"message":{}}]}`, true, Failed, none},
		{"a delta for a message", openai.APIChat, `{"id":"1","choices":[{"index":0,"delta":{"content":"a"}}]}`, true, Failed, none},
		{"a choice without text", openai.APICompletions, `{"id":"1","choices":[{"index":0,"text":null}]}`, true, Failed, none},
		{"a call of a tool", openai.APIChat, `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}}]}`, true, Good, Failure{}},
		{"half a chat and no more", openai.APIChat, `{"id":"1","choices":[{"message":{"content":"a"}`, true, Failed, none},
		{"a chat and white space", openai.APIChat, `{"id":"1","choices":[{"message":{"content":"a"}}]}` + "\n", true, Good, Failure{}},
		{"the second one aborted", openai.APIGenerate, `[{"text":"a","meta_info":{"finish_reason":{"type":"stop"}}},{"text":"a","meta_info":{"finish_reason":{"type":"abort","status_code":500}}}]`, true, Failed, Failure{Status: 500}},
		{"aborted, with its status", openai.APIChat, `{"choices":[{"finish_reason":{"type":"abort","status_code":500},"message":{"content":""}}]}`, true, Failed, Failure{Status: 500}},
		{"an error", openai.APIChat, `{"error":{"code":503}}`, false, Failed, Failure{Status: 503}},
		{"a number that is none in JSON", openai.APIChat, `{"created":NaN,"choices":[{"message":{"role":"a"}}]}`, true, Good, Failure{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, f := JudgeAnswer(FormOf(tt.api), []byte(tt.in), tt.whole, nil)
			assert.Equal(t, tt.verdict, v)
			assert.Equal(t, tt.failure, f)
		})
	}
}

// FuzzJudgeAnswer: an object passes if it has the members, a verdict on a part is that on the whole,
// and the usage is that which a scanner of pieces finds.
func FuzzJudgeAnswer(f *testing.F) {
	for _, doc := range []string{
		`{}`, `{"a":{"choices":1}}`, `{"id":"x","choices":[{}]}`, `{"choices":[{"message":{"role":"a"}}]}`,
		`{"choices":[{"message":{"role":"\"prompt_tokens\":9"}}],"usage":{"prompt_tokens":3,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":1}}}`, `null`, `{"ch\u006fices":1}`,
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var usage, pieces openai.UsageScanner
		v, _ := JudgeAnswer(FormOf(openai.APIChat), p, true, &usage)
		if v == Good && json.Valid(p) {
			for _, c := range p {
				_, _ = pieces.Write([]byte{c})
			}
			require.Equal(t, pieces.Usage(), usage.Usage())
		}
		if len(p) >= MaxEvent || !json.Valid(p) || bytes.Contains(p, []byte(`\`)) || bytes.Contains(p, []byte(`"error"`)) ||
			bytes.Contains(p, keyReason) || bytes.Count(p, []byte(`"choices"`)) > 1 {
			return
		}
		var doc map[string]any
		_ = json.Unmarshal(p, &doc)
		choices, _ := doc["choices"].([]any)
		has := len(choices) > 0
		if has {
			choice, _ := choices[0].(map[string]any)
			message, _ := choice["message"].(map[string]any)
			_, has = message["role"].(string)
		}
		if bytes.Count(p, []byte(`"message"`)) > 1 || bytes.Count(p, []byte(`"role"`)) != 1 {
			return
		}
		require.Equal(t, has, v == Good)
		for n := range p {
			if early, _ := JudgeAnswer(FormOf(openai.APIChat), p[:n], false, nil); early != More {
				require.Equal(t, v, early, "%q", p[:n])
			}
		}
	})
}

// TestClosed compares with a reader of one byte after the other.
func TestClosed(t *testing.T) {
	slow := func(doc string) bool {
		depth, inside, escaped := 0, false, false
		for _, c := range []byte(doc) {
			switch {
			case escaped:
				escaped = false
			case inside && c == '\\':
				escaped = true
			case c == '"':
				inside = !inside
			case inside:
			case c == '{' || c == '[':
				depth++
			case c == '}' || c == ']':
				depth--
			}
		}
		return depth == 0
	}
	const letters = `{}[]""\\a`
	r, seen := rand.New(rand.NewPCG(1, 2)), map[bool]int{}
	for range 50_000 {
		doc := make([]byte, r.IntN(12))
		for i := range doc {
			doc[i] = letters[r.IntN(len(letters))]
		}
		want := slow(string(doc))
		require.Equal(t, want, formTyped.read(doc, nil).ends, "%q", doc)
		seen[want]++
	}
	require.Greater(t, min(seen[true], seen[false]), 1000)
}

// TestReadFindsReasons compares with a search, which finds the same in JSON.
func TestReadFindsReasons(t *testing.T) {
	texts := []string{`"finish_reason"`, `"a finish_reason"`, `"\"finish_reason\""`, `"finish_reason\\"`, `"finish_reasons"`, `"xinish_reason"`, `""`}
	const abort = `{"type":"abort","status_code":503},`
	r, found := rand.New(rand.NewPCG(3, 4)), 0
	for range 2000 {
		doc := []byte("[")
		for range r.IntN(5) {
			doc = append(append(doc, texts[r.IntN(len(texts))]...), []string{":" + abort, ": " + abort, `:"{",`, ","}[r.IntN(4)]...)
		}
		doc = append(doc, "{}]"...)
		got := formTyped.read(doc, nil)
		require.True(t, got.ends, "%q", doc)
		want := regexp.MustCompile(`"finish_reason":? ?\{`).Match(doc)
		require.Equal(t, want, got.aborted, "%q", doc)
		if want {
			found++
			require.Equal(t, Failure{Status: 503}, got.why)
		}
	}
	require.Greater(t, found, 100)
}

// TestEnginesAnswers: what SGLang has answered passes, from the first bytes on that tell it.
func TestEnginesAnswers(t *testing.T) {
	apis := map[string]openai.API{"chat": openai.APIChat, "completions": openai.APICompletions, "generate": openai.APIGenerate}
	files, err := filepath.Glob("../../prompt/openai/testdata/answers/*")
	require.NoError(t, err)
	for _, file := range files {
		name, kind, _ := strings.Cut(filepath.Base(file), ".")
		name, _, _ = strings.Cut(name, "_")
		judge := func(p []byte, whole bool) (Verdict, Failure) { return JudgeStream(apis[name], p, whole) }
		switch {
		case name == "error":
			continue
		case name == "tokenize":
			judge = func(p []byte, whole bool) (Verdict, Failure) {
				return JudgeAnswer(FormAt([]byte("/tokenize")), p, whole, nil)
			}
		case kind == "json":
			judge = func(p []byte, whole bool) (Verdict, Failure) { return JudgeAnswer(FormOf(apis[name]), p, whole, nil) }
		}
		doc, err := os.ReadFile(file)
		require.NoError(t, err)
		v, f := judge(doc, true)
		assert.Equal(t, Good, v, "%s: %v", file, f)
		for cut := range doc {
			v, f := judge(doc[:cut], false)
			assert.NotEqual(t, Failed, v, "%s: %v: %s", file, f, doc[:cut])
		}
	}
}
