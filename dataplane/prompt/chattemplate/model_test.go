package chattemplate_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
)

// modelOf makes a model of one of our own templates.
func modelOf(tb testing.TB, name string) *chattemplate.Model {
	tb.Helper()
	return limited(tb, name, chattemplate.Limits{})
}

// limited is modelOf with limits.
func limited(tb testing.TB, name string, limits chattemplate.Limits) *chattemplate.Model {
	tb.Helper()
	raw, err := os.ReadFile("testdata/templates/" + name + ".jinja")
	if err != nil {
		tb.Fatal(err)
	}
	m, err := chattemplate.New(chattemplate.Config{
		Source: chattemplate.Source{Template: string(raw), Tokens: map[string]string{"bos_token": "<s>"}},
		Engine: chattemplate.Engine{Version: "0.5.23"},
		Limits: limits,
		Now:    clock,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestNewRefusesEnginesThatRenderDifferently(t *testing.T) {
	source := chattemplate.Source{Template: "{{ messages }}"}
	tests := map[string]chattemplate.Engine{
		"older":        {Version: "0.5.11"},
		"newer":        {Version: "0.5.24"},
		"unknown":      {},
		"other":        {Version: "0.6.0"},
		"encoder":      {Version: "0.5.23", ToolCallParser: "deepseekv4"},
		"architecture": {Version: "0.5.23", Architectures: []string{"DeepseekV4ForCausalLM"}},
		"type":         {Version: "0.5.23", ModelType: "internvl_chat"},
		"path":         {Version: "0.5.23", ModelPath: "lmsys/Vicuna-7b"},
		"parser":       {Version: "0.5.23", ReasoningParser: "hunyuan"},
		"defaults":     {Version: "0.5.12", DefaultKwargs: []byte(`{"a": 1}`)},
	}
	for name, engine := range tests {
		if _, err := chattemplate.New(chattemplate.Config{Source: source, Engine: engine}); !errors.Is(err, chattemplate.ErrUnsupported) {
			t.Errorf("%s: New = %v, want ErrUnsupported", name, err)
		}
	}
	good := chattemplate.Engine{Version: "0.5.12.post1", ModelPath: "Qwen/Qwen3-8B", Architectures: []string{"Qwen3ForCausalLM"}, DefaultKwargs: []byte("null")}
	if _, err := chattemplate.New(chattemplate.Config{Source: source, Engine: good}); err != nil {
		t.Errorf("New = %v, want none", err)
	}
	if _, err := chattemplate.New(chattemplate.Config{Source: chattemplate.Source{Template: "{{ bos_token }}"}, Engine: good}); !errors.Is(err, chattemplate.ErrUnsupported) {
		t.Errorf("New of a template with an unknown bos_token = %v, want ErrUnsupported", err)
	}
}

func TestRequestsThatAreLeftToTheWorker(t *testing.T) {
	m := modelOf(t, "dump")
	bodies := []string{
		`{"messages": []}`,
		`{"messages": "x"}`,
		`{"messages": [{"role": "user"}]}`,
		`{"messages": [{"role": "user", "content": null}]}`,
		`{"messages": [{"role": "root", "content": "x"}]}`,
		`{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}`,
		`{"messages": [{"role": "system", "content": "x", "tools": [{}]}]}`,
		`{"messages": [{"role": "tool", "content": "x", "tool_call_id": 7}]}`,
		`{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "no json"}}]}]}`,
		`{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[]"}}]}]}`,
		`{"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"x\": NaN}"}}]}]}`,
		`{"messages": [{"role": "user", "content": "\ud800"}]}`,
		"{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}",
		`{"messages": [{"role": "user", "content": "x"}], "input_ids": [1]}`,
		`{"messages": [{"role": "user", "content": "x"}], "reasoning": {"effort": "low"}}`,
		`{"messages": [{"role": "user", "content": "x"}], "reasoning_effort": 0.5}`,
		`{"messages": [{"role": "user", "content": "x"}], "continue_final_message": "true"}`,
		`{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"chat_template": "y"}}`,
		`{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"documents": [1]}}`,
		`{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": []}`,
		`{"messages": [{"role": "user", "content": "x"}], "tools": [{"function": {"name": "f", "parameters": {"type": "varchar"}}}]}`,
		`{"messages": [{"role": "user", "content": "x"}], "tools": [{"function": {"name": "f"}, "defer_loading": true}]}`,
		`{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]}`,
		`{"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}`,
	}
	for _, body := range bodies {
		req, err := chattemplate.ParseRequest([]byte(body))
		if err == nil {
			_, err = m.Render(nil, req)
		}
		if !errors.Is(err, chattemplate.ErrUnsupported) {
			t.Errorf("%s: error %v, want ErrUnsupported", body, err)
		}
	}
}

func TestLoadFollowsTransformers(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	config := file(`{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": null, "add_bos_token": true, "chat_template": "config"}`)
	named := file(`{"chat_template": [{"name": "default", "template": "one"}, {"name": "rag", "template": "two"}]}`)
	tests := []struct {
		files fstest.MapFS
		name  string
		want  string
	}{
		{fstest.MapFS{"tokenizer_config.json": config}, "", "config"},
		{fstest.MapFS{"tokenizer_config.json": config, "chat_template.json": file(`{"chat_template": "json"}`)}, "", "json"},
		{fstest.MapFS{"tokenizer_config.json": config, "chat_template.jinja": file("jinja")}, "", "jinja"},
		{fstest.MapFS{"tokenizer_config.json": named}, "", "one"},
		{fstest.MapFS{"tokenizer_config.json": named}, "rag", "two"},
		{fstest.MapFS{"tokenizer_config.json": named}, "none", ""},
		{fstest.MapFS{}, "", ""},
	}
	for i, test := range tests {
		got, err := chattemplate.Load(test.files, test.name)
		if got.Template != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%d: Load = %q, %v; want %q", i, got.Template, err, test.want)
		}
		if err != nil && !errors.Is(err, chattemplate.ErrNoTemplate) {
			t.Errorf("%d: Load = %v, want ErrNoTemplate", i, err)
		}
	}
	got, err := chattemplate.Load(fstest.MapFS{
		"tokenizer_config.json": config, "special_tokens_map.json": file(`{"bos_token": "no", "pad_token": "<pad>"}`),
	}, "")
	want := map[string]string{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "", "pad_token": "<pad>"}
	if err != nil || !reflect.DeepEqual(got.Tokens, want) {
		t.Errorf("tokens %q, %v; want %q", got.Tokens, err, want)
	}
	if got := chattemplate.FromFlag("\n\na\\nb\r\n\n"); got != "a\nb" {
		t.Errorf("FromFlag = %q", got)
	}
}

func TestModelsAreShared(t *testing.T) {
	m := modelOf(t, "turns")
	want, err := m.Render(nil, chattemplate.Request{Messages: turns(6, 300)})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for n := range 50 {
				if n%3 == 0 { // an error in between leaves nothing behind
					_, _ = m.Render(nil, chattemplate.Request{Messages: []byte(`[{"role": "user", "content": [{"type": "text", "text": "\n"}, 1]}]`)})
				}
				_, _ = m.Render(nil, chattemplate.Request{Messages: turns(i, 10)})
				if got, err := m.Render(nil, chattemplate.Request{Messages: turns(6, 300)}); err != nil || string(got) != string(want) {
					t.Errorf("Render = %q, %v", got, err)
					return
				}
			}
		})
	}
	wait.Wait()
}

func TestStrftimeNow(t *testing.T) {
	tmpl, err := chattemplate.Compile("{{ strftime_now('%d %b %Y') }}|{{ strftime_now(format='%H:%M') }}{{ strftime_now('%Q') if broken }}")
	if err != nil {
		t.Fatal(err)
	}
	in := chattemplate.Input{Messages: []byte(`[]`), Now: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC)}
	if got, err := tmpl.Render(nil, in); err != nil || string(got) != "02 Jan 2031|03:04" {
		t.Errorf("Render = %q, %v", got, err)
	}
	in.Kwargs = []byte(`{"broken": true}`)
	if _, err := tmpl.Render(nil, in); !errors.Is(err, chattemplate.ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", err)
	}
}

// TestBigIntegers: orjson, with which SGLang reads bodies, makes floats of integers beyond 64 bits.
func TestBigIntegers(t *testing.T) {
	m, err := chattemplate.New(chattemplate.Config{
		Source: chattemplate.Source{Template: "{% for m in messages %}{{ m|tojson }}{% endfor %}{{ tools|tojson }}"},
		Engine: chattemplate.Engine{Version: "0.5.23"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[string]string{
		"18446744073709551615": "18446744073709551615", "18446744073709551616": "1.8446744073709552e+19",
		"-9223372036854775808": "-9223372036854775808", "-9223372036854775809": "-9.223372036854776e+18",
		"123456789012345678901234567890": "1.2345678901234568e+29",
	} {
		got, err := m.Render(nil, chattemplate.Request{
			Messages: []byte(`[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":` + number + `}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]`),
			Tools:    []byte(`[{"type":"function","function":{"name":"f","parameters":{"maximum":` + number + `}}}]`),
		})
		if err != nil || !strings.Contains(string(got), `{"a": `+want+`}`) || !strings.Contains(string(got), `{"maximum": `+want+`}`) {
			t.Errorf("%s gives %s, %v; want %s", number, got, err, want)
		}
	}
}
