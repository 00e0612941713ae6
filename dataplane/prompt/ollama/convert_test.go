package ollama_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/prompt/ollama"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

func TestAppendChat(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"model":"m","messages":[{"role":"user","content":"a\u0062","images":["x"]}],"tools":[{}],"format":"json"}`://
		`{"stream":true,"model":"m","max_tokens":2048,"messages":[{"role":"user","content":"a\u0062"}]}`,
		`{"messages":[ {"content":"b","role":"system"}, {"role":"user"} ],"stream":false,"options":{"num_predict":9,"top_k":40,"seed":1}}`://
		`{"stream":false,"max_tokens":9,"top_k":40,"messages":[{"role":"system","content":"b"},{"role":"user","content":null}]}`,
		`{"mess\u0061ges":[],"stream":null}`: `{"stream":true,"max_tokens":2048,"messages":[]}`,
		`{"messages":7}`:                     `{"stream":true,"max_tokens":2048,"messages":7}`,
		`{}`:                                 `{"stream":true,"max_tokens":2048}`,
	} {
		got, err := ollama.AppendChat(nil, []byte(body))
		require.NoError(t, err, body)
		assert.Equal(t, want, string(got))
	}
}

func TestAppendGenerate(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		text  string
		empty bool
	}{
		`{"prompt":"a\n\ud83d\ude00"}`:           {"a\n😀", false},
		`{"prompt":"a","system":"s\""}`:          {"s\"\n\na", false},
		`{"prompt":"a","system":""}`:             {"a", false},
		`{"prompt":"a","system":7}`:              {"a", false},
		`{"prompt":" \n"}`:                       {" \n", true},
		`{"prompt":"","system":"s"}`:             {"s\n\n", false},
		`{"prompt":"a","suffix":"b","raw":true}`: {"a", false},
	} {
		got, empty, err := ollama.AppendGenerate(nil, []byte(body))
		require.NoError(t, err, body)
		var r struct {
			Text     string
			Stream   bool
			Sampling map[string]int `json:"sampling_params"`
		}
		require.NoError(t, json.Unmarshal(got, &r), "%s", got)
		assert.Equal(t, want.text, r.Text)
		assert.Equal(t, want.empty, empty, body)
		assert.True(t, r.Stream)
		assert.Equal(t, map[string]int{"max_new_tokens": 2048}, r.Sampling)
	}
	got, _, err := ollama.AppendGenerate(nil, []byte(`{"model":"m","prompt":["a"]}`))
	require.NoError(t, err)
	assert.JSONEq(t, `{"stream":true,"model":"m","text":["a"]}`, string(got))
}

// FuzzConversions: a body that is read becomes JSON, with the prompt's text as SGLang makes it.
func FuzzConversions(f *testing.F) {
	f.Add([]byte(`{"model":"m","system":"s","prompt":"p","messages":[{"role":"user","content":"x"}],"options":{"top_k":1}}`))
	f.Add([]byte(`{"prompt":"\ud800","messages":[1,{"content":[]}],"options":{"num_predict":-1}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var from map[string]json.RawMessage // a struct's names would have no case
		readable := json.Unmarshal(body, &from) == nil
		check := func(out []byte, err error) {
			var refused *openai.Error
			if err != nil && (!errors.As(err, &refused) || refused.Status != 400) || err == nil && !json.Valid(out) {
				t.Fatalf("%q is %q, %v", body, out, err)
			}
		}
		out, err := ollama.AppendChat(nil, body)
		check(out, err)
		out, _, err = ollama.AppendGenerate(nil, body)
		check(out, err)
		var to struct{ Text *string }
		var prompt, system *string
		if err != nil || !readable || json.Unmarshal(from["prompt"], &prompt) != nil || prompt == nil {
			return
		}
		want := *prompt
		if json.Unmarshal(from["system"], &system) == nil && system != nil && *system != "" {
			want = *system + "\n\n" + want
		}
		if json.Unmarshal(out, &to) == nil && (to.Text == nil || *to.Text != want) {
			t.Fatalf("%q has the text %v, want %q", body, to.Text, want)
		}
	})
}

func TestAppendError(t *testing.T) {
	t.Parallel()
	got := ollama.AppendError(nil, openai.BadRequest("x", `no "x"`))
	var e struct{ Error string }
	require.NoError(t, json.Unmarshal(got, &e))
	assert.Contains(t, e.Error, `no "x"`)
}
