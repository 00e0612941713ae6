package sim

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// ollamaAnswer is an answer of Ollama's API, or a line of a stream.
type ollamaAnswer struct {
	Model, Response string
	Message         struct{ Content string }
	Done            bool
	Prompt          int `json:"prompt_eval_count"`
	Answer          int `json:"eval_count"`
}

// TestOllama: /api/chat says what a chat says, /api/generate what /generate says, and a stream what
// its answer says but for the last line, whose text SGLang loses.
func TestOllama(t *testing.T) {
	w := startWorker(t, fast())
	const messages = `"messages":[{"role":"user","content":"tell me"}]`
	chat := decode[chatAnswer](t, post(t, w, "/v1/chat/completions", `{"max_tokens":9,`+messages+`}`))
	text := decode[generatedAnswer](t, post(t, w, "/generate", `{"text":"s\n\ntell me","sampling_params":{"max_new_tokens":9}}`))
	for _, x := range []struct {
		path, body, text string
		prompt           int
	}{
		{"/api/chat", messages, chat.Choices[0].Message.Content, chat.Usage.Prompt},
		{"/api/generate", `"system":"s","prompt":"tell me"`, text.Text, text.Meta.Prompt},
	} {
		body := `{"model":"tiny","options":{"num_predict":9},` + x.body
		got := decode[ollamaAnswer](t, post(t, w, x.path, body+`,"stream":false}`))
		if said := got.Response + got.Message.Content; said != x.text || !got.Done || got.Prompt != x.prompt || got.Answer != 9 {
			t.Errorf("%s says %+v, want %q to %d tokens", x.path, got, x.text, x.prompt)
		}
		r := post(t, w, x.path, body+`}`)
		var said strings.Builder
		var last ollamaAnswer
		for line := range strings.Lines(string(r.body)) {
			last = ollamaAnswer{}
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			said.WriteString(last.Response + last.Message.Content)
		}
		if !last.Done || !strings.HasPrefix(x.text, said.String()) {
			t.Errorf("%s streams %q, want %q", x.path, said.String(), x.text)
		}
	}
	if r := post(t, w, "/api/generate", `{"model":"tiny","prompt":""}`); !strings.Contains(string(r.body), `"done":true`) {
		t.Errorf("no prompt: %s", r.body)
	}
	if r := post(t, w, "/api/chat", `{"model":"tiny"}`); r.status != http.StatusBadRequest {
		t.Errorf("no messages: %d %s", r.status, r.body)
	}
}

func TestSessions(t *testing.T) {
	w := startWorker(t, fast())
	for _, x := range []struct {
		path, body string
		status     int
	}{
		{"/open_session", `{"capacity_of_str_len":100,"session_id":"a"}`, 200},
		{"/open_session", `{"capacity_of_str_len":100,"session_id":"a"}`, 400},
		{"/open_session", `{"session_id":"b"}`, 400},
		{"/generate", `{"text":"x","sampling_params":{"max_new_tokens":2},"session_params":{"id":"a"}}`, 200},
		{"/close_session", `{"session_id":"a"}`, 200},
		{"/generate", `{"text":"x","sampling_params":{"max_new_tokens":2},"session_params":{"id":"a"}}`, 400},
		{"/open_session", `{"capacity_of_str_len":100,"session_id":null}`, 200},
	} {
		if r := post(t, w, x.path, x.body); r.status != x.status {
			t.Errorf("%s %s: %d %s, want %d", x.path, x.body, r.status, r.body, x.status)
		}
	}
}
