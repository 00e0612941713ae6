package responses_test

import (
	"bytes"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/warmpath/warmpath/dataplane/prompt/responses"
)

// TestNaive proves the specification by SGLang's own chats.
func TestNaive(t *testing.T) {
	for _, v := range readVectors(t) {
		if v.Chat == nil || isGap(&v) || bytes.Contains(v.Body, []byte(`\\ud800`)) || bytes.Contains(v.Body, []byte(`\\ude00`)) {
			continue // encoding/json reads half surrogates, which orjson refuses
		}
		chat, err := naiveChat(v.Body, v.history(), v.Inline)
		if err != nil {
			t.Errorf("%s: %v", v.Body, err)
			continue
		}
		if got, want := toJSON(normal(chat)), toJSON(normal(v.Chat)); !bytes.Equal(got, want) {
			t.Errorf("inline %v\nbody %s\ngot  %s\nwant %s", v.Inline, v.Body, got, want)
		}
	}
}

// FuzzAppendChat compares the package with the specification.
func FuzzAppendChat(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add([]byte(v.Body), v.Inline)
	}
	f.Fuzz(func(t *testing.T, body []byte, inline bool) {
		if !utf8.Valid(body) || bytes.Contains(body, []byte(`\u`)) || bytes.Contains(body, []byte(`\\u`)) {
			return // surrogates are encoding/json's and orjson's own affair
		}
		var c responses.Converter
		chat, err := c.AppendChat(nil, body, nil, responses.Dialect{InlineSystem: inline})
		if err != nil {
			return
		}
		want, err := naiveChat(body, nil, inline)
		if err != nil {
			t.Fatalf("%s is converted to %s", body, chat)
		}
		if got, want := normal(decode(t, chat)), normal(decode(t, toJSON(want))); !reflect.DeepEqual(got, want) {
			t.Fatalf("body %s\ngot  %s\nwant %s", body, toJSON(got), toJSON(want))
		}
	})
}
