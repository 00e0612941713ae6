package tokenizer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// vector is one file of testdata/vectors; its README describes its making.
type vector struct {
	name      string
	Tokenizer json.RawMessage `json:"tokenizer"`
	Cases     []vectorCase    `json:"cases"`
}

type vectorCase struct {
	text         string
	ids, special []uint32
}

// UnmarshalJSON reads [text, ids, ids with special tokens].
func (c *vectorCase) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&c.text, &c.ids, &c.special})
}

func vectors(t testing.TB) []vector {
	t.Helper()
	paths, err := filepath.Glob("testdata/vectors/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	var all []vector
	for _, path := range paths {
		all = append(all, readVector(t, path))
	}
	return all
}

func readVector(t testing.TB, path string) vector {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	v := vector{name: strings.TrimSuffix(filepath.Base(path), ".json")}
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return v
}

// loadVector loads the tokenizer of one file.
func loadVector(t testing.TB, name string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(readVector(t, "testdata/vectors/"+name+".json").Tokenizer)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.name, func(t *testing.T) {
			tok, err := tokenizer.Load(v.Tokenizer)
			if err != nil {
				t.Fatal(err)
			}
			for round := range 2 { // the second time from the cache
				for _, c := range v.Cases {
					if got := tok.MustAppend(nil, c.text); !slices.Equal(got, c.ids) {
						t.Errorf("round %d: Append(%q) = %v, want %v", round, c.text, got, c.ids)
					}
					if got := tok.MustAppendSpecial(nil, c.text); !slices.Equal(got, c.special) {
						t.Errorf("AppendSpecial(%q) = %v, want %v", c.text, got, c.special)
					}
				}
			}
		})
	}
}
