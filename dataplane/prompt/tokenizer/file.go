package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// file is tokenizer.json as the Rust library writes it, version 1.0. Its parts stay raw until their
// type is known.
type file struct {
	Version       string          `json:"version"`
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Model         json.RawMessage `json:"model"`
}

// addedToken is a token that is found in the text as it is, before the model sees it.
type addedToken struct {
	ID         uint32 `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
}

// modelFile is the model of type BPE.
type modelFile struct {
	Type         string            `json:"type"`
	Dropout      *float64          `json:"dropout"`
	Unk          *string           `json:"unk_token"`
	Prefix       *string           `json:"continuing_subword_prefix"`
	Suffix       *string           `json:"end_of_word_suffix"`
	FuseUnk      bool              `json:"fuse_unk"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
	Vocab        map[string]uint32 `json:"vocab"`
	Merges       json.RawMessage   `json:"merges"`
}

// pattern is the pattern of Split and Replace: a text or a regular expression.
type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// absent reports whether a part is missing or null.
func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func typeOf(raw json.RawMessage) (string, error) {
	var part struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &part); err != nil {
		return "", err
	}
	return part.Type, nil
}

// strict decodes a part and refuses unknown fields, since each may change the part's effect.
func strict(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// parseMerges reads merges in either form: "a b", or ["a", "b"] as written since tokenizers 0.20.
func parseMerges(raw json.RawMessage) ([][2]string, error) {
	// The new form first: a list of strings fails at its first element.
	var pairs [][2]string
	if err := json.Unmarshal(raw, &pairs); err == nil {
		return pairs, nil
	}
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		return nil, fmt.Errorf("merges are neither strings nor pairs: %w", err)
	}
	out := make([][2]string, 0, len(lines))
	for i, line := range lines {
		// A line of merges.txt that was taken over with the others.
		if len(line) >= 8 && line[:8] == "#version" {
			continue
		}
		left, right, ok := cutOnce(line)
		if !ok {
			return nil, fmt.Errorf("merge %d is %q, want two tokens with one space between", i, line)
		}
		out = append(out, [2]string{left, right})
	}
	return out, nil
}

// cutOnce splits at the only space.
func cutOnce(s string) (left, right string, ok bool) {
	at := -1
	for i := range len(s) {
		if s[i] == ' ' {
			if at >= 0 {
				return "", "", false
			}
			at = i
		}
	}
	if at < 0 {
		return "", "", false
	}
	return s[:at], s[at+1:], true
}
