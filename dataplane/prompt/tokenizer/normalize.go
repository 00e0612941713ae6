package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// normalizer rewrites a text before the model sees it. It returns s itself where nothing changes,
// else a view of w.text, to which it appends. s is valid UTF-8, and so is the result. Beyond the
// budget of w the result is any text.
type normalizer interface {
	normalize(w *scratch, s string) string
}

// newNormalizer builds the normalizers of a file, in the order in which they apply.
func newNormalizer(t *unicodeTables, raw json.RawMessage) ([]normalizer, error) {
	if absent(raw) {
		return nil, nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	// Their effects are in tokenizers/src/normalizers. The ones left out (Nmt, Precompiled,
	// BertNormalizer, StripAccents, ByteLevel) belong to models of other kinds than BPE, or to none
	// that is served.
	switch kind {
	case "Sequence":
		var parts struct {
			Type        string            `json:"type"`
			Normalizers []json.RawMessage `json:"normalizers"`
		}
		if err := strict(raw, &parts); err != nil {
			return nil, err
		}
		var all []normalizer
		for _, part := range parts.Normalizers {
			n, err := newNormalizer(t, part)
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	case "NFC":
		return []normalizer{nfc{t}}, nil
	case "NFD", "NFKC", "NFKD":
		return []normalizer{otherForm{t, form{compat: kind != "NFD", compose: kind == "NFKC"}}}, nil
	case "Lowercase":
		return []normalizer{lowercase{t}}, nil
	case "Strip":
		var strip struct {
			Type  string `json:"type"`
			Left  bool   `json:"strip_left"`
			Right bool   `json:"strip_right"`
		}
		err := strict(raw, &strip)
		return []normalizer{trim{t, strip.Left, strip.Right}}, err
	case "Prepend":
		var prefix struct {
			Type    string `json:"type"`
			Prepend string `json:"prepend"`
		}
		err := strict(raw, &prefix)
		return []normalizer{prepend(prefix.Prepend)}, err
	case "Replace":
		r, err := newReplace(t, raw)
		return []normalizer{r}, err
	default:
		return nil, unsupported("the normalizer " + kind)
	}
}

// nfc is canonical composition. Text in NFC, which is nearly all, is only scanned.
type nfc struct{ *unicodeTables }

func (n nfc) normalize(w *scratch, s string) string {
	at := n.runNot(s, 0, unsettled)
	if at == len(s) {
		return s
	}
	// From here on w.text holds the result of s[:done]; the rest is copied at the end.
	start, done := len(w.text), 0
	for at < len(s) {
		// A joining character joins with the one before it and the ones behind it, up to the next
		// settled one.
		begin := at
		for begin > done {
			begin--
			if s[begin]&0xC0 != 0x80 {
				break
			}
		}
		end := n.run(s, at, unsettled)
		if !w.fits(canonicalGrowth * (end - begin)) {
			return s
		}
		w.text = append(w.text, s[done:begin]...)
		w.text = n.forms.append(w.text, &w.runes, s[begin:end], form{compose: true})
		done = end
		at = n.runNot(s, end, unsettled)
	}
	w.text = append(w.text, s[done:]...)
	return w.made(start)
}

// otherForm is NFD, NFKC or NFKD. ASCII is in all of them and joins nothing before it.
type otherForm struct {
	*unicodeTables
	to form
}

func (n otherForm) normalize(w *scratch, s string) string {
	at := asciiEnd(s)
	if at == len(s) {
		return s
	}
	start, done := len(w.text), 0
	for at < len(s) {
		// The ASCII before a run goes with it, since a mark may join it: e and U+0301 are é.
		begin := max(at-1, done)
		end := at
		for end < len(s) && s[end] >= utf8.RuneSelf {
			end++
		}
		if !w.fits(compatGrowth * (end - begin)) {
			return s
		}
		w.text = append(w.text, s[done:begin]...)
		w.text = n.forms.append(w.text, &w.runes, s[begin:end], n.to)
		done = end
		at = end + asciiEnd(s[end:])
	}
	w.text = append(w.text, s[done:]...)
	return w.made(start)
}

// The most bytes that normalization makes of one, and so of runes at a time.
const (
	canonicalGrowth = 3  // U+0390
	compatGrowth    = 11 // U+FDFA
)

// asciiEnd is the length of the ASCII that s begins with.
func asciiEnd(s string) int {
	i := 0
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// lowercase maps each character by itself, so a final sigma is no exception.
type lowercase struct{ *unicodeTables }

func (l lowercase) normalize(w *scratch, s string) string {
	start := len(w.text)
	for _, r := range s {
		if to, ok := l.lower[r]; ok {
			w.text = append(w.text, to...)
		} else {
			w.text = utf8.AppendRune(w.text, r)
		}
	}
	return w.made(start)
}

// trim removes white space from the ends, by char::is_whitespace of Rust, which is the class space.
type trim struct {
	*unicodeTables
	left, right bool
}

func (t trim) normalize(_ *scratch, s string) string {
	isSpace := func(r rune) bool { return t.maskOf(r)&space != 0 }
	if t.left {
		s = strings.TrimLeftFunc(s, isSpace)
	}
	if t.right {
		s = strings.TrimRightFunc(s, isSpace)
	}
	return s
}

// prepend puts a text before a text that is not empty. The library normalizes each stretch between
// added tokens by itself, so Llama 2 has a marker after each special token and not only at the
// beginning.
type prepend string

func (p prepend) normalize(w *scratch, s string) string {
	if s == "" || !w.fits(len(p)+len(s)) {
		return s
	}
	start := len(w.text)
	w.text = append(w.text, p...)
	w.text = append(w.text, s...)
	return w.made(start)
}

// replaceAll puts one text for each match of a pattern.
type replaceAll struct {
	find    scanner
	content string
}

func newReplace(t *unicodeTables, raw json.RawMessage) (replaceAll, error) {
	var part struct {
		Type    string  `json:"type"`
		Pattern pattern `json:"pattern"`
		Content string  `json:"content"`
	}
	if err := strict(raw, &part); err != nil {
		return replaceAll{}, err
	}
	find, err := newScanner(t, part.Pattern)
	return replaceAll{find, part.Content}, err
}

func (r replaceAll) normalize(w *scratch, s string) string {
	start := len(w.text)
	for i := 0; i < len(s); {
		end, matched := r.find.next(&w.budget, s, i)
		if matched {
			if !w.fits(len(w.text) - start + len(r.content)) {
				return s
			}
			w.text = append(w.text, r.content...)
		} else {
			w.text = append(w.text, s[i:end]...)
		}
		i = end
	}
	return w.made(start)
}

// made returns the text from start on, which a normalizer or a pre-tokenizer has made.
func (w *scratch) made(start int) string {
	text := view(w.text[start:])
	w.spend(len(text))
	return text
}
