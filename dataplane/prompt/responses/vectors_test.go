package responses_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// vector is a line of testdata/vectors.jsonl, which scripts/responses/vectors.py wrote.
type vector struct {
	Body    json.RawMessage   `json:"body"`
	Inline  bool              `json:"inline"`
	History []json.RawMessage `json:"history"`
	Chat    map[string]any    `json:"chat"`
	Error   int               `json:"error"`
}

func (v *vector) dialect() responses.Dialect { return responses.Dialect{InlineSystem: v.Inline} }

func (v *vector) history() (lists [][]byte) {
	for _, list := range v.History {
		lists = append(lists, list)
	}
	return lists
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	f, err := os.Open("testdata/vectors.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []vector
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v vector
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if len(all) < 500 {
		t.Fatalf("%d vectors", len(all))
	}
	return all
}

// TestVectors compares chats with those that SGLang's own code makes of the same bodies. One
// Converter reads all of them: nothing of a body may be left for the next one.
func TestVectors(t *testing.T) {
	var c responses.Converter
	for _, v := range readVectors(t) {
		chat, err := c.AppendChat([]byte("before"), v.Body, v.history(), v.dialect())
		if err != nil {
			if v.Chat != nil && !isGap(&v) {
				t.Errorf("inline %v\nbody %s\nis not converted: %v", v.Inline, v.Body, err)
			}
			if string(chat) != "before" {
				t.Errorf("after an error the memory is %q", chat)
			}
			if errors.Is(err, responses.ErrRefused) == errors.Is(err, responses.ErrUnsupported) {
				t.Errorf("the error has no kind: %v", err)
			}
			continue
		}
		got := decode(t, chat[len("before"):])
		if v.Chat == nil {
			// Pydantic refuses it behind the conversion. The template refuses it here.
			continue
		}
		if want := normal(v.Chat); !reflect.DeepEqual(normal(got), want) {
			t.Errorf("inline %v\nbody %s\ngot  %s\nwant %s", v.Inline, v.Body, toJSON(normal(got)), toJSON(want))
		}
	}
}

// isGap reports whether a body is left to the engine on purpose.
func isGap(v *vector) bool {
	messages, _ := v.Chat["messages"].([]any)
	return len(messages) == 0
}

func decode(t testing.TB, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("%s is no object: %v", raw, err)
	}
	return v
}

func toJSON(v any) []byte {
	raw, _ := json.Marshal(v)
	return raw
}

// normal drops differences without an effect: a tool_choice that the template does not get, null
// for absent members, and arguments as text or as the object in it.
func normal(chat map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range chat {
		if v != nil {
			out[k] = v
		}
	}
	if out["tools"] == nil || out["tool_choice"] == "auto" {
		delete(out, "tool_choice")
	}
	messages, _ := out["messages"].([]any)
	for _, m := range messages {
		m, _ := m.(map[string]any)
		maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
		calls, _ := m["tool_calls"].([]any)
		for _, call := range calls {
			call, _ := call.(map[string]any)
			f, _ := call["function"].(map[string]any)
			text, isText := f["arguments"].(string)
			var parsed any
			d := json.NewDecoder(bytes.NewReader([]byte(text)))
			d.UseNumber()
			if isText && d.Decode(&parsed) == nil {
				f["arguments"] = parsed
			}
		}
	}
	return out
}
