package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestSharedBeginning: several prompts share ids or text, up to a whole escape.
func TestSharedBeginning(t *testing.T) {
	tests := []struct {
		body   string
		text   string   // that all share
		ids    []uint32 // the same of ids
		behind int      // ids of all prompts behind them
	}{
		{`{"input_ids":[[1,2,3],[1,2,4,5]]}`, "", []uint32{1, 2}, 3},
		{`{"input_ids":[[1,2,3],[1,2,3],[1]]}`, "", []uint32{1}, 4},
		{`{"input_ids":[[1],[2]]}`, "", nil, 2},
		{`{"input_ids":[[7,8]]}`, "", nil, 0},
		{`{"text":["abcd","abx"]}`, "ab", nil, 0},
		{`{"text":["a\nb","a\tb"]}`, "a", nil, 0},
		{`{"text":["a\nb","a\nc"]}`, "a\n", nil, 0},
		{`{"text":["a\\b","a\\c"]}`, `a\`, nil, 0},
		{`{"text":["a\u00e9","a\u00e8"]}`, "a", nil, 0},
		{`{"text":["a\ud83d\ude00","a\ud83d\ude01"]}`, "a", nil, 0},
		{`{"text":["a\ud83d\ude00b","a\ud83d\ude00c"]}`, "a\U0001F600", nil, 0},
		{`{"text":["a\ud83d\nb","a\ud83d\nc"]}`, "a\uFFFD\n", nil, 0},
		{`{"text":["one"]}`, "", nil, 0},
	}
	for _, tt := range tests {
		var r Request
		if err := r.Parse(APIGenerate, []byte(tt.body)); err != nil {
			t.Fatalf("%s: %v", tt.body, err)
		}
		text, ids := "", []uint32(nil)
		if r.HasIDs {
			ids = r.InputIDs[:r.Shared]
		} else {
			text = string(r.Text[:r.Shared])
		}
		if text != tt.text || !slices.Equal(ids, tt.ids) || r.Rest != tt.behind {
			t.Errorf("%s: text %q, ids %v, %d behind, want %q, %v, %d", strings.TrimSpace(tt.body), text, ids, r.Rest, tt.text, tt.ids, tt.behind)
		}
	}
}

// FuzzShared: the shared text is the beginning of every prompt as encoding/json decodes it, and lacks
// no more of what all begin with than a part of a character.
func FuzzShared(f *testing.F) {
	f.Add("some words", "some \n words", "so")
	f.Add("a\U0001F600", "a\U0001F601", "a\u2028")
	f.Add("a\x00b", "a\x01b", `a\`)
	f.Fuzz(func(t *testing.T, one, two, three string) {
		body, err := json.Marshal(map[string][]string{"text": {one, two, three}})
		if err != nil {
			t.Fatal(err)
		}
		var decoded struct{ Text []string }
		if err := json.Unmarshal(body, &decoded); err != nil {
			t.Fatal(err)
		}
		var r Request
		if err := r.Parse(APIGenerate, body); err != nil {
			return // blank prompts are refused
		}
		all := decoded.Text[0]
		for _, text := range decoded.Text[1:] {
			all = all[:common([]byte(all), []byte(text))]
		}
		if shared := string(r.Text[:r.Shared]); !strings.HasPrefix(all, shared) || len(all)-len(shared) > 3 {
			t.Errorf("%s: all share %q, not %q", body, all, shared)
		}
	})
}
