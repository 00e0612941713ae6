package tokenizer

import (
	"encoding/json"
	"fmt"
)

// tekkenFile is tekken.json as Mistral publishes it beside or instead of tokenizer.json: the bytes of each token in the
// order of their ranks, and the first ids left free for control tokens. See mistral_common/tokens/tokenizers/tekken.py.
type tekkenFile struct {
	Config struct {
		Pattern  string `json:"pattern"`
		Vocab    int    `json:"default_vocab_size"`
		Specials int    `json:"default_num_special_tokens"`
		Version  string `json:"version"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"`
	} `json:"vocab"`
	Specials []struct {
		Rank    uint32 `json:"rank"`
		Text    string `json:"token_str"`
		Control bool   `json:"is_control"`
	} `json:"special_tokens"`
}

// LoadTekken reads a tekken.json. As in mistral_common, control tokens are not found in text: a chat's are put in by id,
// which ID gives by name. AppendSpecial puts <s> before a text.
func LoadTekken(data []byte) (*Tokenizer, error) {
	var f tekkenFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("cannot read tekken.json: %w", err)
	}
	t, err := newTekken(&f)
	if err != nil {
		return nil, fmt.Errorf("cannot load tekken.json: %w", err)
	}
	return t, nil
}

func newTekken(f *tekkenFile) (*Tokenizer, error) {
	chars, err := charTables()
	if err != nil {
		return nil, err
	}
	// The file holds more tokens than the model has: only the first are used.
	size := f.Config.Vocab - f.Config.Specials
	if size < 256 || size > len(f.Vocab) || f.Config.Vocab > maxID || f.Config.Specials < 0 {
		return nil, fmt.Errorf("%d tokens of which %d special do not go with a vocabulary of %d",
			f.Config.Vocab, f.Config.Specials, len(f.Vocab))
	}
	// tiktoken's regular expressions are the crate regex's, whose Unicode is 16 too; a stretch that matches nothing is dropped there
	// and a piece here, but the patterns of Mistral's files match everything.
	find, err := chars.newScanner(pattern{Regex: &f.Config.Pattern})
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{tables: chars}
	t.scratch.New = func() any { return new(scratch) }
	t.pre = preTokenizer{steps: []step{{find: find}}, bytes: true}
	t.decoder = []decoder{byteLevelDecoder{}}
	t.ids = map[string]uint32{}
	for i, token := range f.Vocab[:size] {
		if token.Rank != i {
			return nil, fmt.Errorf("token %d has rank %d", i, token.Rank)
		}
		spelled := string(toAlphabet(nil, view(token.Bytes)))
		if _, ok := t.ids[spelled]; ok || spelled == "" {
			return nil, fmt.Errorf("token %d is empty or there twice", i)
		}
		t.ids[spelled] = uint32(i + f.Config.Specials)
	}
	t.model = &model{bytes: true, ignoreMerges: true}
	t.model.build(t.ids, rankRules(t.ids), false)
	// Control tokens decode by name, but nothing looks for them in a text.
	t.added = addedTokens{byID: map[uint32]addedToken{}, ids: map[string]uint32{}, special: map[string]bool{}}
	for _, token := range f.tekkenSpecials() {
		t.added.byID[token.ID] = token
		t.added.ids[token.Content] = token.ID
		t.added.special[token.Content] = true
	}
	if id, ok := t.added.ids["<s>"]; ok {
		t.post.before = []uint32{id}
	}
	t.finish()
	// No token is found in text, so there is no place to cut at.
	t.safe = nil
	return t, nil
}

// tekkenSpecials are the control tokens; files before version v7 do not list them, and these were the same in all.
func (f *tekkenFile) tekkenSpecials() []addedToken {
	var out []addedToken
	for _, s := range f.Specials {
		out = append(out, addedToken{ID: s.Rank, Content: s.Text, Special: true})
	}
	if out != nil {
		return out
	}
	for i, name := range []string{
		"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
		"[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]",
		"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]",
	} {
		out = append(out, addedToken{ID: uint32(i), Content: name, Special: true})
	}
	return out
}

// rankRules are merges for a vocabulary that has ranks alone, as tiktoken uses it: any two tokens whose bytes together are a
// token become it, the one of the lowest rank first.
func rankRules(ids map[string]uint32) []merge {
	var rules []merge
	for token, id := range ids {
		for i := range token {
			left, okLeft := ids[token[:i]]
			right, okRight := ids[token[i:]]
			if okLeft && okRight {
				rules = append(rules, merge{left, right, id, id})
			}
		}
	}
	return rules
}
