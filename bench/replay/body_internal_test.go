package replay

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/bench/trace"
)

func TestBodiesAreJSONWithTheRightPrompt(t *testing.T) {
	r := trace.Request{Input: 700, Output: 9, Block: trace.BlockTokens, IDs: []uint64{4, 7}}
	voc := Vocabulary{First: 100, Size: 1000}
	for _, api := range []API{APIGenerate, APICompletions, APIChat} {
		t.Run(api.String(), func(t *testing.T) {
			b := bodies{api: api, model: []byte(`"m"`), vocabulary: voc}
			var got struct {
				Model    string `json:"model"`
				InputIDs []int  `json:"input_ids"`
				Prompt   []int  `json:"prompt"`
				Messages []struct{ Content string }
				Stream   bool           `json:"stream"`
				MaxNew   int            `json:"max_tokens"`
				Sampling map[string]any `json:"sampling_params"`
			}
			if err := json.Unmarshal(b.append(nil, &r, ""), &got); err != nil {
				t.Fatal(err)
			}
			ids := got.InputIDs
			switch api {
			case APICompletions:
				ids = got.Prompt
			case APIChat:
				if n := len(strings.Fields(got.Messages[0].Content)); n != 700 {
					t.Errorf("chat has %d words, want 700", n)
				}
				return
			}
			if len(ids) != 700 || slices.Min(ids) < 100 || slices.Max(ids) >= 1100 || !got.Stream {
				t.Errorf("%d ids from %d to %d, stream %v", len(ids), slices.Min(ids), slices.Max(ids), got.Stream)
			}
			if want := float64(9); api == APIGenerate && got.Sampling["max_new_tokens"] != want || api != APIGenerate && got.MaxNew != 9 {
				t.Errorf("the answer's length is lost: %+v", got)
			}
		})
	}
}

// A longer prompt with the same ids must continue the shorter one, or nothing is ever cached.
func TestCutBlockIsAPrefix(t *testing.T) {
	b := bodies{api: APIGenerate, vocabulary: Vocabulary{First: 1, Size: 30000}}
	short := b.appendTokens(nil, &trace.Request{Input: 600, Block: trace.BlockTokens, IDs: []uint64{1, 2}})
	long := b.appendTokens(nil, &trace.Request{Input: 1500, Block: trace.BlockTokens, IDs: []uint64{1, 2, 3}})
	if !strings.HasPrefix(string(long), string(short)+",") {
		t.Error("the prompt of 1500 tokens does not begin with that of 600")
	}
}

func TestParseAPI(t *testing.T) {
	for _, name := range []string{"generate", "completions", "chat", "messages"} {
		if a, err := ParseAPI(name); err != nil || a.String() != name {
			t.Errorf("ParseAPI(%q) = %v, %v", name, a, err)
		}
	}
	if _, err := ParseAPI("embeddings"); !errors.Is(err, ErrAPI) {
		t.Errorf("ParseAPI(embeddings) = %v, want ErrAPI", err)
	}
}
