package tokenizer_test

import (
	"fmt"

	"github.com/warmpath/warmpath/dataplane/prompt/tokenizer"
)

// A vocabulary of five tokens and two merges.
const tiny = `{
	"version": "1.0",
	"added_tokens": [{"id": 5, "content": "<|end|>", "special": true}],
	"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
	"model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "Ġ": 2, "hi": 3, "Ġhi": 4}, "merges": ["h i", "Ġ hi"]}
}`

func ExampleTokenizer_Append() {
	tok, err := tokenizer.Load([]byte(tiny))
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := tok.Append(nil, []byte("hi hi<|end|>i"))
	fmt.Println(ids, err, tok.Text(ids))
	// Output: [3 4 5 1] <nil> hi hi<|end|>i
}

func ExampleTokenizer_CutAfter() {
	tok, err := tokenizer.Load([]byte(tiny))
	if err != nil {
		fmt.Println(err)
		return
	}
	// The first turn was encoded before; now the second has come.
	turns := []byte("hi<|end|>hi hi")
	cut := tok.CutAfter(turns, 1)
	known, _ := tok.Append(nil, turns[:cut])
	ids, _ := tok.AppendRest(known, turns[cut:])
	whole, _ := tok.Append(nil, turns)
	fmt.Println(known, ids, whole)
	// Output: [3 5] [3 5 3 4] [3 5 3 4]
}
