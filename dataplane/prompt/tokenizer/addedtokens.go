package tokenizer

import (
	"cmp"
	"slices"
	"strings"
)

// addedTokens are the tokens that are found in the text by their own spelling. The library searches
// twice: for tokens that are not normalized in the original text, then for the others in the
// normalized text between.
type addedTokens struct {
	byID    map[uint32]addedToken
	ids     map[string]uint32
	raw     *finder // not normalized; nil where there are none
	normal  *finder // normalized
	notices []string
}

// newAddedTokens gives the tokens their ids as the library does: a token of the vocabulary keeps
// its id, the others get the next free ones in order, regardless of the ids in the file.
func newAddedTokens(tokens []addedToken, vocab map[string]uint32, normalize func(string) string) addedTokens {
	a := addedTokens{byID: map[uint32]addedToken{}, ids: map[string]uint32{}}
	// add_tokens in tokenizers/src/tokenizer/added_vocabulary.rs.
	next := uint32(len(vocab))
	for _, token := range tokens {
		if token.Content == "" {
			continue
		}
		id, ok := a.ids[token.Content]
		if !ok {
			id, ok = vocab[token.Content]
		}
		if !ok {
			id = next
			next++
		}
		if id != token.ID {
			a.notices = append(a.notices, "the added token "+token.Content+" has another id than the file says, as in the library")
		}
		token.ID = id
		a.ids[token.Content] = id
		a.byID[id] = token // of two entries with one content the later one's flags count
	}
	var raw, normal []entry
	for _, token := range a.byID {
		if token.Normalized {
			normal = append(normal, entry{normalize(token.Content), token})
		} else {
			raw = append(raw, entry{token.Content, token})
		}
	}
	a.raw, a.normal = newFinder(raw), newFinder(normal)
	return a
}

// entry is the spelling of an added token.
type entry struct {
	text  string
	token addedToken
}

// finder finds the leftmost of its entries in a text, and the longest of those at one position.
type finder struct {
	firsts  [256]bool // bytes that entries begin with
	only    int       // the only such byte, or -1
	nodes   []trieNode
	entries []entry
}

// trieNode is a place in the trie of the entries' bytes.
type trieNode struct {
	low   byte    // the byte of next[0]
	next  []int32 // by byte from low on; 0 for none, since the root is no child
	entry int32   // the entry that ends here, or -1
}

// newFinder is nil for no entries. Gemma has 6,400 added tokens, so a trie is built once and a text
// is walked once.
func newFinder(entries []entry) *finder {
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.text == "" })
	if len(entries) == 0 {
		return nil
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.text, b.text) })
	f := &finder{only: -1, entries: entries}
	f.build(0, len(entries), 0)
	for _, e := range entries {
		f.firsts[e.text[0]] = true
	}
	if a, b := entries[0].text[0], entries[len(entries)-1].text[0]; a == b {
		f.only = int(a)
	}
	return f
}

// build makes the node of entries[from:to], which agree in their first depth bytes, and returns its
// index.
func (f *finder) build(from, to, depth int) int32 {
	at := int32(len(f.nodes))
	f.nodes = append(f.nodes, trieNode{entry: -1})
	if len(f.entries[from].text) == depth {
		f.nodes[at].entry = int32(from)
		from++
	}
	if from >= to {
		return at
	}
	low, high := f.entries[from].text[depth], f.entries[to-1].text[depth]
	next := make([]int32, int(high)-int(low)+1)
	for from < to {
		c := f.entries[from].text[depth]
		end := from + 1
		for end < to && f.entries[end].text[depth] == c {
			end++
		}
		next[c-low] = f.build(from, end, depth+1)
		from = end
	}
	f.nodes[at].low, f.nodes[at].next = low, next
	return at
}

// find is the next entry in s from i on, and where it begins; -1 for none.
func (f *finder) find(s string, i int) (at int, e *entry) {
	for i < len(s) {
		if f.only >= 0 {
			skip := strings.IndexByte(s[i:], byte(f.only))
			if skip < 0 {
				return -1, nil
			}
			i += skip
		} else if !f.firsts[s[i]] {
			i++
			continue
		}
		if e := f.longest(s, i); e != nil {
			return i, e
		}
		i++
	}
	return -1, nil
}

// longest is the longest entry that s has at i.
func (f *finder) longest(s string, i int) *entry {
	best, at := int32(-1), int32(0)
	for ; i < len(s); i++ {
		if at = f.nodes[at].child(s[i]); at == 0 {
			break
		}
		if e := f.nodes[at].entry; e >= 0 {
			best = e
		}
	}
	if best < 0 {
		return nil
	}
	return &f.entries[best]
}

// each calls found for each entry that s has at i, with where it ends.
func (f *finder) each(s string, i int, found func(end int, token *addedToken)) {
	at := int32(0)
	for ; i < len(s); i++ {
		if at = f.nodes[at].child(s[i]); at == 0 {
			return
		}
		if e := f.nodes[at].entry; e >= 0 {
			found(i+1, &f.entries[e].token)
		}
	}
}

// child is the node after one more byte, or 0.
func (n *trieNode) child(c byte) int32 {
	if i := int(c) - int(n.low); i >= 0 && i < len(n.next) {
		return n.next[i]
	}
	return 0
}
