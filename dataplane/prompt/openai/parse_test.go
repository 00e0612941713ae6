package openai_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

type parseCase struct {
	name, body string
	api        openai.API
	param      string // of the error; "-" when there is none
	message    string // part of the error's message
}

// parseCases are bodies and their faults, if any.
func parseCases() []parseCase {
	const gen, comp, chat = openai.APIGenerate, openai.APICompletions, openai.APIChat
	deep := `{"prompt":"x","y":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`
	return []parseCase{
		{"empty", ``, comp, "", "empty"},
		{"space", ` `, comp, "", "empty"},
		{"truncated", `{"prompt":"x`, comp, "", "byte 12"},
		{"truncated after key", `{"prompt"`, comp, "", "too early"},
		{"not JSON", `hello`, comp, "", "'h' at byte 0"},
		{"a list", `[1]`, comp, "", "object"},
		{"trailing garbage", `{"prompt":"x"} {}`, comp, "", "'{' at byte 15"},
		{"trailing comma", `{"prompt":"x",}`, comp, "", "byte 14"},
		{"control character", "{\"prompt\":\"a\nb\"}", comp, "", "control character"},
		{"invalid UTF-8", "{\"prompt\":\"ab\xff\"}", comp, "", "invalid UTF-8 at byte 13"},
		{"NaN", `{"prompt":"x","temperature":NaN}`, comp, "", "'N'"},
		{"deep", deep, comp, "", "nested deeper"},
		{"two byte order marks", "\ufeff\ufeff{}", comp, "", "'\\ufeff' at byte 3"},
		{"a byte order mark alone", "\ufeff", comp, "", "empty"},
		{"rid null", `{"rid":null,"prompt":"x"}`, comp, "-", ""},
		{"rid empty", `{"rid":"","prompt":"x"}`, comp, "-", ""},
		{"rid empty list", `{"rid":[],"prompt":"x"}`, comp, "-", ""},
		{"rid empty in a list", `{"rid":["a",""],"prompt":["x","y"]}`, comp, "-", ""},
		{"rid null in a list", `{"rid":["a",null],"prompt":["x","y"]}`, comp, "rid", "strings only"},
		{"rid number", `{"rid":0,"prompt":"x"}`, comp, "rid", "a string"},
		{"rid twice", `{"rid":"a","prompt":"x","rid":null}`, comp, "-", ""},
		{"rid twice, escaped", `{"rid":null,"prompt":"x","\u0072id":"b"}`, comp, "-", ""},
		{"rid with half a pair", `{"rid":"\ud800","prompt":"x"}`, comp, "-", ""},
		{"rid that begins the router's", `{"rid":"wp","prompt":"x"}`, comp, "-", ""},
		{"stream of a number", `{"stream":2,"prompt":"x"}`, comp, "stream", "true or false"},
		{"stream of a list", `{"stream":[],"prompt":"x"}`, comp, "stream", "true or false"},
		{"prompt missing", `{}`, comp, "prompt", "missing"},
		{"prompt null", `{"prompt":null}`, comp, "prompt", "missing"},
		{"prompt number", `{"prompt":7}`, comp, "prompt", "string or a list"},
		{"prompt object", `{"prompt":{}}`, comp, "prompt", "string or a list"},
		{"prompt empty list", `{"prompt":[]}`, comp, "prompt", "empty"},
		{"prompt mixed", `{"prompt":["a",1]}`, comp, "prompt", "strings only"},
		{"prompt floats", `{"prompt":[1.5]}`, comp, "prompt", "integers only"},
		{"prompt negative", `{"prompt":[1,-2]}`, comp, "prompt", "negative"},
		{"prompt above u32", `{"prompt":[4294967296]}`, comp, "prompt", "below 2³²"},
		{"prompt far above", `{"prompt":[99999999999999999999999]}`, comp, "prompt", "below 2³²"},
		{"prompt leading zero", `{"prompt":[01]}`, comp, "", "not valid JSON"},
		{"prompt lists mixed", `{"prompt":[[1],2]}`, comp, "prompt", "lists of token ids"},
		{"prompt empty inner", `{"prompt":[[1],[]]}`, comp, "prompt", "empty list"},
		{"model not a string", `{"model":5,"prompt":"x"}`, comp, "model", "string"},
		{"stream not a bool", `{"stream":"2","prompt":"x"}`, comp, "stream", "true or false"},
		{"priority not an int", `{"priority":"high","prompt":"x"}`, comp, "priority", "integer"},
		{"rank not an int", `{"routed_dp_rank":1.5,"prompt":"x"}`, comp, "routed_dp_rank", "integer"},
		{"rid a number", `{"rid":5,"prompt":"x"}`, comp, "rid", "string"},
		{"rid mixed", `{"rid":["a",5],"prompt":["x","y"]}`, comp, "rid", "strings only"},
		{"messages missing", `{}`, chat, "messages", "missing"},
		{"messages not a list", `{"messages":"hi"}`, chat, "messages", "list of messages"},
		{"messages empty", `{"messages":[]}`, chat, "messages", "empty"},
		{"message not an object", `{"messages":[{},"hi"]}`, chat, "messages", "objects only"},
		{"chat ids of a batch", `{"messages":[{}],"input_ids":[[1]]}`, chat, "input_ids", "wrong type"},
		{"chat ids empty", `{"messages":[{}],"input_ids":[]}`, chat, "input_ids", "empty"},
		{"generate nothing", `{}`, gen, "text", "must be given"},
		{"generate ids text", `{"input_ids":"x"}`, gen, "input_ids", "wrong type"},
		{"generate text ids", `{"text":[1]}`, gen, "text", "strings only"},
		{"generate ids, then texts", `{"input_ids":[4],"text":["a"]}`, gen, "-", ""},
		{"generate ids empty", `{"input_ids":[]}`, gen, "input_ids", "empty"},
		{"generate sampling", `{"text":"x","sampling_params":3}`, gen, "sampling_params", "object"},
		{"embeds", `{"input_embeds":[[0.5]]}`, gen, "-", ""},
		{"session history", `{"input_ids":[],"session_params":{"id":"s"}}`, gen, "-", ""},
		{"unread fields are not judged", `{"prompt":"x","temperature":"hot","stop":{"a":[]}}`, comp, "-", ""},
		{"last key wins", `{"prompt":7,"prompt":"x"}`, comp, "-", ""},
		{"escaped key", `{"promp\u0074":"x"}`, comp, "-", ""},
		{"other API", `{"input":[1,2],"prompt":7}`, openai.APIOther, "-", ""},
		{"white space", "\r\n\t { \"prompt\" : [ 1 , 2 ] } \n", comp, "-", ""},
		{"all of chat", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"tools":[]}`, chat, "-", ""},
		{"image", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, chat, "-", ""},
		{"generate all", `{"text":["a","b"],"input_ids":[[1,2],[3]],"rid":["x","y"],"image_data":[]}`, gen, "-", ""},
	}
}

func TestParseJudges(t *testing.T) {
	for _, c := range parseCases() {
		t.Run(c.name, func(t *testing.T) {
			var r openai.Request
			err := r.Parse(c.api, []byte(c.body))
			if c.param == "-" {
				if err != nil {
					t.Fatalf("Parse = %v, want no error", err)
				}
				return
			}
			var e *openai.Error
			if !errors.As(err, &e) {
				t.Fatalf("Parse = %v, want an *Error", err)
			}
			if e.Status != 400 || e.Param != c.param || !strings.Contains(e.Message, c.message) {
				t.Errorf("Parse = %+v, want param %q and a message with %q", e, c.param, c.message)
			}
		})
	}
}

func TestParseReadsChat(t *testing.T) {
	const body = `{"model":"base:ada","stream":true,"stream_options":{"include_usage":true},"n":2,"max_tokens":5,
		"max_completion_tokens":7,"messages":[{"role":"user","content":"h\u00e9"}] , "tools":[{"a":1}],
		"chat_template_kwargs":{"x":1},"reasoning_effort":"low","rid":"q","lora_path":"l","cache_salt":"s",
		"extra_key":"e","priority":-3,"data_parallel_rank":1,"session_id":"z","input_ids":[5,6]}`
	var r openai.Request
	if err := r.Parse(openai.APIChat, []byte(body)); err != nil {
		t.Fatal(err)
	}
	want := openai.Request{
		Model:   "base:ada",
		Routing: openai.Routing{RID: "q", LoRA: "l", CacheSalt: "s", ExtraKey: "e", SessionID: []byte("z")},
	}
	if r.Model != want.Model || r.RID != want.RID || r.LoRA != want.LoRA || r.CacheSalt != want.CacheSalt ||
		r.ExtraKey != want.ExtraKey || string(r.SessionID) != string(want.SessionID) {
		t.Errorf("strings: %+v", r)
	}
	if !r.Stream || !r.IncludeUsage || r.N != 2 || r.MaxTokens != 7 || r.Priority != -3 || r.Rank != 1 || !r.HasRank {
		t.Errorf("numbers: %+v", r)
	}
	if !r.HasIDs || !slices.Equal(r.InputIDs, []uint32{5, 6}) || r.Batch || r.Multimodal {
		t.Errorf("ids %v, batch %v, multimodal %v", r.InputIDs, r.Batch, r.Multimodal)
	}
	if string(r.Messages) != `[{"role":"user","content":"h\u00e9"}]` || string(r.RawModel) != `"base:ada"` {
		t.Errorf("messages %q, model %q", r.Messages, r.RawModel)
	}
	var names []string
	for _, f := range r.PromptFields() {
		names = append(names, f.Name+"="+string(f.Raw))
	}
	wantNames := []string{`tools=[{"a":1}]`, `chat_template_kwargs={"x":1}`, `reasoning_effort="low"`}
	if !slices.Equal(names, wantNames) {
		t.Errorf("PromptFields = %q, want %q", names, wantNames)
	}
}

func TestParsePrompts(t *testing.T) {
	tests := []struct {
		name, body string
		api        openai.API
		text       string
		ids        []uint32
		batch      bool
		prompts    int
	}{
		{"string", `{"prompt":"a\"b\\c\/\b\f\n\r\t\u0041\ud83d\ude00"}`, openai.APICompletions, "a\"b\\c/\b\f\n\r\tA😀", nil, false, 1},
		{"lone surrogates", `{"prompt":"\ud83dx\ude00\ud83d\ud83d"}`, openai.APICompletions, "\ufffdx\ufffd\ufffd\ufffd", nil, false, 1},
		{"strings", `{"prompt":["a","b","c"]}`, openai.APICompletions, "a", nil, true, 3},
		{"one string", `{"prompt":["a"]}`, openai.APICompletions, "a", nil, true, 1},
		{"ids", `{"prompt":[0,4294967295]}`, openai.APICompletions, "", []uint32{0, 4294967295}, false, 1},
		{"lists", `{"prompt":[[1, 2],[3]]}`, openai.APICompletions, "", []uint32{1, 2}, true, 2},
		{"text and ids", `{"text":"t","input_ids":[3]}`, openai.APIGenerate, "t", []uint32{3}, false, 1},
		{"ids, then texts", `{"input_ids":[3],"text":["t"]}`, openai.APIGenerate, "t", []uint32{3}, false, 1},
		{"ids taken back", `{"input_ids":[3],"text":"t","input_ids":null}`, openai.APIGenerate, "t", nil, false, 1},
		{"last wins", `{"prompt":[1,2],"prompt":[3]}`, openai.APICompletions, "", []uint32{3}, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r openai.Request
			if err := r.Parse(tt.api, []byte(tt.body)); err != nil {
				t.Fatal(err)
			}
			if string(r.Text) != tt.text || !slices.Equal(r.InputIDs, tt.ids) || r.Batch != tt.batch || r.Prompts != tt.prompts {
				t.Errorf("got text %q ids %v batch %v prompts %d", r.Text, r.InputIDs, r.Batch, r.Prompts)
			}
		})
	}
}

// TestParseLongLists has an odd id at every place of a list: it is read or refused as in a short
// one.
func TestParseLongLists(t *testing.T) {
	tests := []struct {
		id, why string
		value   uint32
	}{
		{"0", "", 0},
		{"9999999", "", 9999999},
		{"10000000", "", 10000000},
		{"4294967295", "", 4294967295},
		{" \t8\n ", "", 8},
		{"4294967296", "below 2³²", 0},
		{"-1", "negative", 0},
		{"1.5", "integers only", 0},
		{"null", "integers only", 0},
	}
	for _, tt := range tests {
		for at := range 100 {
			body, want := `{"input_ids":[`, make([]uint32, 100)
			place := 0
			for i := range want {
				want[i] = uint32(i * i * 11)
				text := strconv.Itoa(i * i * 11)
				if i == at {
					text, want[i], place = tt.id, tt.value, len(body)
				}
				body += text + ", "[:1+i%2]
			}
			body = strings.TrimRight(body, ", ") + "]}"
			var r openai.Request
			err := r.Parse(openai.APIGenerate, []byte(body))
			if tt.why == "" {
				if err != nil || !slices.Equal(r.InputIDs, want) {
					t.Errorf("%q at %d: %v, %v", tt.id, at, r.InputIDs, err)
				}
				continue
			}
			if say := fmt.Sprintf("(byte %d)", place); err == nil || !strings.Contains(err.Error(), tt.why) || !strings.Contains(err.Error(), say) {
				t.Errorf("%q at %d: %v, want %q %s", tt.id, at, err, tt.why, say)
			}
		}
	}
}

func TestParseGenerateSampling(t *testing.T) {
	var r openai.Request
	for _, sp := range []string{`{"max_new_tokens":9,"n":4}`, `[ {"max_new_tokens":9,"n":4},{}]`} {
		if err := r.Parse(openai.APIGenerate, []byte(`{"text":"x","sampling_params":`+sp+`}`)); err != nil {
			t.Fatal(err)
		}
		if r.MaxTokens != 9 || r.N != 4 {
			t.Errorf("sampling_params %s: max %d n %d, want 9 and 4", sp, r.MaxTokens, r.N)
		}
	}
}
