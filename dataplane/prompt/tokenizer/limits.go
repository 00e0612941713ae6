package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrLimit is wrapped where a file, or a text under its tokenizer, would take more work or memory
// than real ones do.
var ErrLimit = errors.New("tokenizer: more work than a real one takes")

// overLimit is the error for a part of a file.
func overLimit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))
}

// Bounds of a file. Of real ones of 2026, Gemma 3 has the most values (two million, of which 1.5
// are its merges), Llasa the most added tokens (66,000) and DeepSeek V3 the most parts (12).
const (
	maxValues     = 4 << 20   // in all
	maxPart       = 1 << 20   // bytes of a normalizer, pre-tokenizer or post-processor
	maxObjects    = 128       // in one of these
	maxNesting    = 16        // of one of these
	maxParts      = 32        // normalizers and pre-tokenizers together: each walks every text
	maxToken      = 8 << 10   // bytes of a token of the model
	maxAdded      = 128 << 10 // added tokens
	maxAddedBytes = 2 << 20   // of all added tokens; each is a node of a trie
	maxAddedToken = 512       // bytes of one: a text may begin it at every place
	maxAround     = 64        // tokens around a text
	maxPattern    = 4 << 10   // bytes of a regular expression
)

// checkSize refuses a file with too many values before they are decoded. Each value but the first
// of a list or an object comes behind a comma.
func checkSize(data []byte) error {
	n := bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'['}) + bytes.Count(data, []byte{'{'})
	if n > maxValues {
		return overLimit("a file of %d values, more than %d", n, maxValues)
	}
	return nil
}

// checkParts refuses parts whose decoding, which reads a nested part once for each level, would
// take long.
func (f *file) checkParts() error {
	for name, raw := range map[string]json.RawMessage{
		"normalizer": f.Normalizer, "pre_tokenizer": f.PreTokenizer, "post_processor": f.PostProcessor,
	} {
		depth, objects := measure(raw)
		if len(raw) > maxPart || depth > maxNesting || objects > maxObjects {
			return overLimit("the %s has %d bytes and %d parts, nested %d deep", name, len(raw), objects, depth)
		}
	}
	return f.checkAdded()
}

func (f *file) checkAdded() error {
	if len(f.AddedTokens) > maxAdded {
		return overLimit("%d added tokens", len(f.AddedTokens))
	}
	total := 0
	for _, token := range f.AddedTokens {
		total += len(token.Content)
		if len(token.Content) > maxAddedToken || total > maxAddedBytes {
			return overLimit("an added token of %d bytes, all with %d", len(token.Content), total)
		}
	}
	return nil
}

// measure returns the nesting of valid JSON, and the number of its objects.
func measure(raw []byte) (depth, objects int) {
	open, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if c == '{' {
				objects++
			}
			open++
			depth = max(depth, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return depth, objects
}

// budget bounds the work of one text, in proportion to its length.
type budget struct {
	room  int  // bytes that normalizers and pre-tokenizers may still make
	steps int  // of regular expressions
	over  bool // one of both was not enough: the ids are wrong
}

const (
	// growth is the bytes that may be made of one, by all normalizers together. The worst that real
	// ones can do is NFKC of U+FDFA, 11 for 1, then lower case, a prefix, and a marker of three
	// bytes for each of its spaces: 46.
	growth = 64
	// stepsPerByte bounds regular expressions. Patterns of real models take 1 to 22, but for
	// those that group digits from the right by a look-ahead, which are quadratic in a number.
	stepsPerByte = 256
	// Of long texts less is allowed for each byte, but always growthOfLong and stepsOfLong: 64 MiB,
	// and 2^26 steps, which take half a second.
	longRoom, growthOfLong = 64 << 20, 12
	longSteps, stepsOfLong = 1 << 26, 64
	// leastBytes is added to the length of a text, so that a short one may have a long prefix.
	leastBytes = 2 << 10
)

// newBudget is the budget of n bytes of text.
func newBudget(n int) budget {
	n += leastBytes
	return budget{room: min(growth*n, max(longRoom, growthOfLong*n)), steps: min(stepsPerByte*n, max(longSteps, stepsOfLong*n))}
}

// fits reports whether n bytes may be made.
func (b *budget) fits(n int) bool {
	b.over = b.over || n > b.room
	return !b.over
}

// spend counts n bytes that were made.
func (b *budget) spend(n int) {
	b.room -= n
	b.over = b.over || b.room < 0
}
