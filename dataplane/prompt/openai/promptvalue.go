package openai

import "bytes"

// promptKind is the JSON type of a prompt's value.
type promptKind uint8

const (
	kindAbsent  promptKind = iota // no such field, or null
	kindText                      // a string
	kindTexts                     // a list of strings
	kindIDs                       // a list of token ids
	kindIDLists                   // a list of lists of token ids
	kindEmpty                     // an empty list
	kindBad                       // anything else; why explains it
)

// promptValue holds the findings of the walk about a prompt's value.
type promptValue struct {
	kind promptKind
	n    int // prompts
	// Ids, or bytes of text with its escapes, that all prompts begin with, and ids of all prompts.
	common, ids int
	text        span   // of the first string, without its quotes
	why         string // of kindBad and kindEmpty
	at          int    // the offset of the fault

	blank int // 1 + the byte of a string that is empty
}

// scanPrompt checks the value at i as a prompt. Token ids go to in.InputIDs, which is emptied
// first: of equal keys the last wins.
func (in *Input) scanPrompt(b []byte, l *promptValue, i int, textOnly bool) (int, *Error) {
	*l = promptValue{kind: kindBad, why: "must be a string or a list", at: i}
	if !textOnly {
		in.InputIDs, in.maxID = in.InputIDs[:0], 0
	}
	if i < len(b) && b[i] == '[' {
		return in.scanList(b, l, i, textOnly)
	}
	end, err := skipValue(b, i, 1)
	if err != nil {
		return end, err
	}
	switch b[i] {
	case '"':
		*l = promptValue{kind: kindText, n: 1, text: span{i + 1, end - 1}}
		l.noteBlank(i, end)
	case 'n':
		l.kind = kindAbsent
	}
	return end, nil
}

// scanList checks the list that begins at i.
func (in *Input) scanList(b []byte, l *promptValue, i int, textOnly bool) (int, *Error) {
	var end int
	switch k := skipSpace(b, i+1); {
	case k >= len(b):
		return k, errTruncated(b)
	case b[k] == ']':
		l.kind, l.why = kindEmpty, "must not be an empty list"
		return k + 1, nil
	case b[k] == '"', textOnly:
		end = l.scanTexts(b, k)
	case b[k] == '[':
		end = in.scanIDLists(b, l, k)
	default:
		end = in.scanIDList(b, l, k)
	}
	if end > 0 {
		return end, nil
	}
	// Slow path: not a prompt. Whether it is JSON at all decides which error the client gets.
	l.kind = kindBad
	return skipValue(b, i, 1)
}

// scanTexts reads a list of strings from its first element; 0 when it is none.
func (l *promptValue) scanTexts(b []byte, i int) (end int) {
	for {
		l.why, l.at = "must hold strings only", i
		if i >= len(b) || b[i] != '"' {
			return 0
		}
		end, _, err := scanString(b, i+1)
		if err != nil {
			return 0
		}
		l.noteBlank(i, end)
		if l.n == 0 {
			l.text, l.common = span{i + 1, end - 1}, end-1-(i+1)
		}
		l.common = common(b[l.text.lo:l.text.lo+l.common], b[i+1:end-1])
		l.n++
		next, more, err := nextMember(b, end, ']')
		if err != nil {
			return 0
		}
		if !more {
			l.kind = kindTexts
			return next
		}
		i = skipSpace(b, next)
	}
}

// noteBlank notes that the string from its quote at i to end is empty.
func (l *promptValue) noteBlank(i, end int) {
	if end == i+2 {
		l.blank = i + 1
	}
}

// scanIDLists reads a list of lists of ids from its first element; 0 when it is none. The first
// list's ids are kept.
func (in *Input) scanIDLists(b []byte, l *promptValue, i int) (end int) {
	keep := 0
	for {
		l.why, l.at = "must hold lists of token ids only", i
		if i >= len(b) || b[i] != '[' {
			return 0
		}
		if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
			l.why = "must not hold an empty list"
			return 0
		}
		if in.InputIDs, end = l.scanIDs(in.InputIDs, b, i); end == 0 {
			return 0
		}
		in.maxID = max(in.maxID, maxOf(in.InputIDs[keep:]))
		l.ids += len(in.InputIDs) - keep
		if l.n == 0 {
			keep = len(in.InputIDs)
			l.common = keep
		} else {
			l.common = common(in.InputIDs[:l.common], in.InputIDs[keep:])
		}
		in.InputIDs = in.InputIDs[:keep]
		l.n++
		next, more, err := nextMember(b, end, ']')
		if err != nil {
			return 0
		}
		if !more {
			l.kind = kindIDLists
			return next
		}
		i = skipSpace(b, next)
	}
}

// common returns how many leading elements two lists share.
func common[E comparable](a, b []E) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// wholeEscapes returns the length of the part of a raw string before n that ends with no part of an
// escape or of a surrogate pair.
func wholeEscapes(raw []byte, n int) int {
	for i := 0; i < n; {
		next := i + 1
		if raw[i] == '\\' {
			if next = i + 2; raw[i+1] == 'u' {
				next = i + 6
				if c := raw[i+2] | 0x20; c == 'd' && raw[i+3] != '0' && bytes.HasPrefix(raw[next:], []byte(`\u`)) {
					next += 6
				}
			}
		}
		if next > n {
			return i
		}
		i = next
	}
	return n
}
