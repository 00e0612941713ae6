package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// chatAnswer holds the fields of an OpenAI answer that tests read.
type chatAnswer struct {
	ID      string `json:"id"`
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Finish  *string         `json:"finish_reason"`
		Matched json.RawMessage `json:"matched_stop"`
	} `json:"choices"`
	Usage *struct {
		Prompt  int `json:"prompt_tokens"`
		Answer  int `json:"completion_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Ext struct {
		IDs []uint32 `json:"input_ids"`
	} `json:"sglext"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func chatBody(t *testing.T, messages []message, more string) string {
	t.Helper()
	b, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"model":"tiny","messages":%s%s}`, b, more)
}

// TestChatTurnsHitTheAnswersPages holds a conversation: each turn's prompt begins with all
// before it, answers included.
func TestChatTurnsHitTheAnswersPages(t *testing.T) {
	w := startWorker(t, fast())
	talk := []message{{"system", "You are terse."}, {"user", "Hi there"}}
	kv := 0 // tokens with keys and values of the last turn
	for turn := range 4 {
		a := decode[chatAnswer](t, post(t, w, "/v1/chat/completions", chatBody(t, talk, `,"max_tokens":30,"ignore_eos":true`)))
		if want := kv / 4 * 4; a.Usage.Details.Cached != want {
			t.Errorf("turn %d: cached %d of %d, want %d", turn, a.Usage.Details.Cached, a.Usage.Prompt, want)
		}
		kv = a.Usage.Prompt + a.Usage.Answer - 1
		talk = append(talk, message{"assistant", a.Choices[0].Message.Content}, message{"user", "go on please"})
	}
}

// TestTokenizeEqualsChat: /v1/tokenize returns the ids that a chat computes.
func TestTokenizeEqualsChat(t *testing.T) {
	w := startWorker(t, fast())
	tests := map[string]string{
		"plain": `"messages":[{"role":"user","content":"Hello <|im_end|> wörld"}]`,
		"parts": `"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
		"tools": `"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]`,
	}
	for name, body := range tests {
		t.Run(name, func(t *testing.T) {
			chat := send(t, w, http.MethodPost, "/v1/chat/completions", `{"max_tokens":1,`+body+`}`,
				map[string]string{"x-sglext-return-input-ids": "1"})
			want := decode[chatAnswer](t, chat).Ext.IDs
			got := decode[struct {
				Tokens []uint32 `json:"tokens"`
				Count  int      `json:"count"`
			}](t, post(t, w, "/v1/tokenize", `{"model":"tiny",`+body+`}`))
			if !slices.Equal(got.Tokens, want) || got.Count != len(want) {
				t.Errorf("tokenized %v, chat used %v", got.Tokens, want)
			}
			text := decode[struct{ Text string }](t, post(t, w, "/v1/detokenize",
				fmt.Sprintf(`{"tokens":%s,"skip_special_tokens":false}`, appendIDs(nil, want)))).Text
			if !strings.HasSuffix(text, "<|im_start|>assistant\n") {
				t.Errorf("detokenized %q", text)
			}
		})
	}
}

// TestStreamsSayWhatAnswersSay compares each endpoint's stream with its answer.
func TestStreamsSayWhatAnswersSay(t *testing.T) {
	cfg := fast()
	cfg.TimeScale = 20
	w := startWorker(t, cfg)
	tests := map[string]struct{ path, body string }{
		"generate":    {"/generate", `{"text":"tell me","sampling_params":{"max_new_tokens":20,"ignore_eos":true}`},
		"chat":        {"/v1/chat/completions", `{"messages":[{"role":"user","content":"tell me"}],"max_tokens":20`},
		"completions": {"/v1/completions", `{"prompt":"tell me","max_tokens":20`},
		"echo":        {"/v1/completions", `{"prompt":"tell me","max_tokens":5,"echo":true`},
		"stop": {
			"/v1/completions",
			`{"prompt":"tell me","max_tokens":2000,"stop":["a","zz"]`,
		},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			whole := textOf(t, post(t, w, x.path, x.body+"}").body)
			var text string
			es := events(post(t, w, x.path, x.body+`,"stream":true}`).body)
			for _, e := range es[:len(es)-1] {
				if s := textOf(t, []byte(e)); x.path == "/generate" {
					text = s // each event has the whole text
				} else {
					text += s
				}
			}
			if text != whole || whole == "" && name != "stop" || es[len(es)-1] != "[DONE]" {
				t.Errorf("streamed %q, answered %q", text, whole)
			}
		})
	}
}

// textOf is the text of an answer or event of any endpoint.
func textOf(t *testing.T, b []byte) string {
	t.Helper()
	var g generatedAnswer
	var c chatAnswer
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	_ = json.Unmarshal(b, &c)
	for _, x := range c.Choices {
		return x.Text + x.Message.Content + x.Delta.Content
	}
	return g.Text
}

func TestFinishReasons(t *testing.T) {
	w := startWorker(t, fast())
	tests := map[string]struct{ more, reason, matched string }{
		"length":      {`"max_tokens":5,"ignore_eos":true`, "length", "null"},
		"itself":      {`"max_tokens":1000`, "stop", "1"},
		"string":      {`"max_tokens":1000,"ignore_eos":true,"stop":["e"]`, "stop", `"e"`},
		"over tokens": {`"max_tokens":2000,"ignore_eos":true,"stop":"a b"`, "stop", `"a b"`},
	}
	for name, x := range tests {
		t.Run(name, func(t *testing.T) {
			a := decode[chatAnswer](t, post(t, w, "/v1/completions", `{"prompt":"tell me",`+x.more+`}`))
			c := a.Choices[0]
			if *c.Finish != x.reason || string(c.Matched) != x.matched {
				t.Errorf("ended for %q, %s; want %q, %s", *c.Finish, c.Matched, x.reason, x.matched)
			}
			if stop := strings.Trim(x.matched, `"`); x.matched[0] == '"' && strings.Contains(c.Text, stop) {
				t.Errorf("%q contains the stop string", c.Text)
			}
		})
	}
}

func TestSpacesAreApart(t *testing.T) {
	w := startWorker(t, fast())
	for i, more := range []string{``, `,"cache_salt":"a"`, `,"cache_salt":"b"`, `,"extra_key":"a"`, `,"lora_path":"a"`} {
		for _, want := range []int{0, 8} {
			a := decode[generatedAnswer](t, post(t, w, "/generate", generateBody(sequence(0, 9), 1, more)))
			if a.Meta.Cached != want {
				t.Errorf("space %d: cached %d, want %d", i, a.Meta.Cached, want)
			}
		}
	}
}

func TestAbortRequest(t *testing.T) {
	cfg := fast()
	cfg.TimeScale = 1
	w := startWorker(t, cfg)
	answers := make(chan generatedAnswer, 2)
	for _, id := range []string{"p1", "p12"} {
		go func() {
			r, err := trySend(w, http.MethodPost, "/generate", generateBody(sequence(0, 9), 1500, fmt.Sprintf(`,"rid":%q`, id)), nil)
			var a generatedAnswer
			if err == nil {
				err = json.Unmarshal(r.body, &a)
			}
			if err != nil {
				t.Error(err)
			}
			answers <- a
		}()
	}
	for running := 0; running < 2; {
		running = decode[struct {
			Loads []struct {
				Running int `json:"num_running_reqs"`
			}
		}](t, get(t, w, "/v1/loads")).Loads[0].Running
	}
	if r := post(t, w, "/flush_cache", ""); r.status != http.StatusBadRequest {
		t.Errorf("flushing a busy cache: status %d, want 400", r.status)
	}
	post(t, w, "/abort_request", `{"rid":"p"}`) // nobody's id: ignored, as by SGLang
	post(t, w, "/abort_request", `{"rid":"p1"}`)
	for range 2 {
		if a := <-answers; a.Meta.Finish.Type != "abort" || a.Meta.Answer == 0 {
			t.Errorf("%s ended for %q after %d tokens", a.Meta.ID, a.Meta.Finish.Type, a.Meta.Answer)
		}
	}
}

// TestClientGone: the work for a disconnected client is aborted.
func TestClientGone(t *testing.T) {
	cfg := fast()
	cfg.TimeScale = 1
	w := startWorker(t, cfg)
	openStream(t, w).Body.Close()
	for deadline := time.Now().Add(patience); w.now.Load().ranks[0].report.snapshot().count.aborted != 1; {
		if time.Now().After(deadline) {
			t.Fatal("the request runs on")
		}
	}
}

func TestBadBodies(t *testing.T) {
	w := startWorker(t, fast())
	paths := []string{"/generate", "/v1/chat/completions", "/v1/completions", "/v1/tokenize", "/v1/detokenize", "/abort_request", "/sim/fault"}
	bodies := []string{
		``, `{`, `[]`, `7`, `"x"`, `{"a"}`, `{"a":}`, `{"text":1}`, `{"input_ids":["a"]}`, `{"input_ids":[1,]}`, `{"input_ids":[1 2]}`,
		`{"input_ids":[[1],2]}`, `{"input_ids":[1,2,99999999]}`, `{"input_ids":[-1]}`, `{"text":""}`, `{"text":[]}`,
		`{"input_ids":[1],"sampling_params":7}`, `{"input_ids":[1],"sampling_params":{"n":0}}`, `{"input_ids":[1],"sampling_params":[]}`,
		`{"input_ids":[1],"sampling_params":[7]}`, `{"input_ids":[1],"stream":"x"}`, `{"input_ids":[1],"rid":3}`, `{"input_ids":[1],"cache_salt":3}`,
		`{"messages":[]}`, `{"messages":7}`, `{"messages":[7]}`, `{"messages":[{"role":"x","content":"y"}]}`, `{"messages":[{"role":"user","content":7}]}`,
		`{"prompt":7}`, `{"prompt":[]}`, `{"prompt":[["a"]]}`, `{"prompt":""}`, `{"prompt":"a","max_tokens":-1}`, `{"prompt":"a","stop":7}`,
		`{"tokens":7}`, `{"tokens":["a"]}`, `{"rid":7}`, `{"kind":"x"}`,
	}
	for _, path := range paths {
		for _, body := range bodies {
			r := post(t, w, path, body)
			if r.status != http.StatusBadRequest && (r.status != http.StatusOK || !validFor(path, body)) {
				t.Errorf("POST %s %s: status %d: %s", path, body, r.status, r.body)
			}
			if len(r.body) > 0 && !json.Valid(r.body) {
				t.Errorf("POST %s %s: answer is no JSON: %s", path, body, r.body)
			}
		}
	}
}

// validFor names the bodies of TestBadBodies that one endpoint accepts.
func validFor(path, body string) bool {
	switch path {
	case "/abort_request":
		return strings.HasPrefix(body, `{"input_ids"`) || strings.HasPrefix(body, "{\"") && json.Valid([]byte(body))
	case "/v1/tokenize":
		return strings.HasPrefix(body, `{"prompt":"`) || body == `{"prompt":[]}`
	}
	return false
}

func TestServerInfo(t *testing.T) {
	cfg := fast()
	cfg.DPSize = 2
	w := startWorker(t, cfg)
	type info struct {
		PageSize int    `json:"page_size"`
		MaxInput int    `json:"max_req_input_len"`
		Name     string `json:"served_model_name"`
		Events   *struct {
			Host   string `json:"endpoint_host"`
			Port   int    `json:"endpoint_port_base"`
			Replay int    `json:"replay_endpoint_port_base"`
			Load   int    `json:"load_endpoint_port_base"`
			Topic  string `json:"topic"`
			Block  int    `json:"block_size"`
			DP     int    `json:"dp_size"`
		} `json:"kv_events"`
	}
	got := decode[info](t, get(t, w, "/server_info"))
	e := got.Events
	if got.PageSize != 4 || got.MaxInput != 2042 || got.Name != "tiny" || e == nil || e.Block != 4 || e.DP != 2 || e.Topic != "kv-events" {
		t.Fatalf("server info %+v, %+v", got, e)
	}
	for want, port := range map[string]int{w.EventsEndpoint(): e.Port, w.ReplayEndpoint(): e.Replay, w.LoadEndpoint(): e.Load} {
		if at := fmt.Sprintf("tcp://%s:%d", e.Host, port); at != want {
			t.Errorf("advertised %s, bound %s", at, want)
		}
	}
	cfg.Events = off
	quiet := startWorker(t, cfg)
	if got := decode[info](t, get(t, quiet, "/get_server_info")); got.Events != nil || quiet.EventsEndpoint() != "" {
		t.Errorf("a worker without events advertises %+v", got.Events)
	}
	post(t, quiet, "/generate", generateBody(sequence(0, 9), 3, ""))
}
