package tokenizer

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// decoder is one decoder of a sequence: it rewrites the list of tokens.
type decoder interface {
	decode(tokens []string) []string
}

// newDecoder builds the decoders of a file. Each takes the result of the one before: Fuse joins all
// tokens, so that a Strip after it works on the whole text and one before it on each token.
func newDecoder(t *unicodeTables, raw json.RawMessage) ([]decoder, error) {
	if absent(raw) {
		return nil, nil
	}
	kind, err := typeOf(raw)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "Sequence":
		var parts struct {
			Decoders []json.RawMessage `json:"decoders"`
		}
		if err := json.Unmarshal(raw, &parts); err != nil {
			return nil, err
		}
		var all []decoder
		for _, part := range parts.Decoders {
			d, err := newDecoder(t, part)
			if err != nil {
				return nil, err
			}
			all = append(all, d...)
		}
		return all, nil
	case "ByteLevel":
		return []decoder{byteLevelDecoder{}}, nil
	case "ByteFallback":
		return []decoder{byteFallbackDecoder{}}, nil
	case "Fuse":
		return []decoder{fuse{}}, nil
	case "Replace":
		r, err := newReplace(t, raw)
		return []decoder{r}, err
	case "Strip":
		var s stripDecoder
		err := json.Unmarshal(raw, &s)
		return []decoder{s}, err
	case "Metaspace":
		var s struct {
			Replacement string `json:"replacement"`
			Scheme      string `json:"prepend_scheme"`
			Prefix      *bool  `json:"add_prefix_space"`
		}
		err := json.Unmarshal(raw, &s)
		return []decoder{metaspaceDecoder{s.Replacement, s.Scheme != "never"}}, err
	default:
		return nil, unsupported("the decoder " + kind)
	}
}

// Decode is the text of tokens, as the Python library's decode with the same skip_special_tokens.
// Ids that are no token are left out.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	tokens := make([]string, 0, len(ids))
	for _, id := range ids {
		s, ok := spellingOf(t, id)
		// The library looks the spelling up among the special tokens, so a token of the model that
		// reads like one is skipped too.
		if !ok || skipSpecial && t.added.special[s] {
			continue
		}
		tokens = append(tokens, s)
	}
	// A file without a decoder gets its tokens with spaces between, as in the library.
	if t.decoder == nil {
		return strings.Join(tokens, " ")
	}
	for _, d := range t.decoder {
		tokens = d.decode(tokens)
	}
	return strings.Join(tokens, "")
}

// spellingOf returns the text of a token before decoding.
func spellingOf(t *Tokenizer, id uint32) (string, bool) {
	// A token that is found in normalized text reads as it does there, since the decoder undoes
	// normalization.
	if s, ok := t.added.spelled[id]; ok {
		return s, true
	}
	if token, ok := t.added.byID[id]; ok {
		return token.Content, true
	}
	if int(id) >= len(t.names) || t.names[id] == "" {
		return "", false
	}
	return t.names[id], true
}

// byteLevelDecoder turns GPT-2's alphabet back into bytes. A token with a character outside of it
// stays as it is: added tokens with a space in them, or DeepSeek's with their full-width bars.
// Bytes that are no UTF-8 when all are put together become U+FFFD, as with String::from_utf8_lossy.
type byteLevelDecoder struct{}

func (byteLevelDecoder) decode(tokens []string) []string {
	var out []byte
	for _, token := range tokens {
		mark := len(out)
		var ok bool
		if out, ok = appendFromAlphabet(out, token); !ok {
			out = append(out[:mark], token...)
		}
	}
	return []string{valid(view(out))}
}

// byteFallbackDecoder turns runs of tokens such as <0xE2> into the characters they spell. A run
// that is not UTF-8 as a whole becomes U+FFFD for each byte, even where part of it would be right.
type byteFallbackDecoder struct{}

func (byteFallbackDecoder) decode(tokens []string) []string {
	var out []string
	var run []byte
	flush := func() {
		if len(run) > 0 && utf8.Valid(run) {
			out = append(out, string(run))
		} else {
			for range run {
				out = append(out, "\uFFFD")
			}
		}
		run = run[:0]
	}
	for _, token := range tokens {
		if b, ok := fallbackByte(token); ok {
			run = append(run, b)
			continue
		}
		flush()
		out = append(out, token)
	}
	flush()
	return out
}

// fallbackByte is the byte of a token such as <0xE2>. Rust reads a sign here too, so <0x+1> is one.
func fallbackByte(token string) (byte, bool) {
	if len(token) != 6 || !strings.HasPrefix(token, "<0x") || token[5] != '>' {
		return 0, false
	}
	digits := token[3:5]
	if digits[0] == '+' {
		digits = digits[1:]
	}
	b, err := strconv.ParseUint(digits, 16, 8)
	return byte(b), err == nil
}

type fuse struct{}

func (fuse) decode(tokens []string) []string { return []string{strings.Join(tokens, "")} }

// decode makes a Replace a decoder: it works on each token.
func (r replaceAll) decode(tokens []string) []string {
	for i, token := range tokens {
		w := scratch{budget: newBudget(len(token))}
		tokens[i] = r.normalize(&w, token)
	}
	return tokens
}

// stripDecoder removes its character up to start times from the beginning of each token, and up to
// stop times from the end.
type stripDecoder struct {
	Content string `json:"content"`
	Start   int    `json:"start"`
	Stop    int    `json:"stop"`
}

func (s stripDecoder) decode(tokens []string) []string {
	for i := range tokens {
		for n := 0; n < s.Start && strings.HasPrefix(tokens[i], s.Content); n++ {
			tokens[i] = tokens[i][len(s.Content):]
		}
		for n := 0; n < s.Stop && strings.HasSuffix(tokens[i], s.Content); n++ {
			tokens[i] = tokens[i][:len(tokens[i])-len(s.Content)]
		}
	}
	return tokens
}

// metaspaceDecoder turns markers into spaces, and drops those of the first token where the encoder
// may have added one.
type metaspaceDecoder struct {
	marker string
	drop   bool
}

func (m metaspaceDecoder) decode(tokens []string) []string {
	for i := range tokens {
		to := " "
		if i == 0 && m.drop {
			to = ""
		}
		tokens[i] = strings.ReplaceAll(tokens[i], m.marker, to)
	}
	return tokens
}

// valid decodes s as Python does with errors="replace": each longest part of a
// character that breaks off becomes U+FFFD, and so does each other byte that is not UTF-8.
func valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string(appendValid(make([]byte, 0, len(s)+16), s))
}

// appendValid appends s with U+FFFD for bytes that are not UTF-8; see valid.
func appendValid(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r != utf8.RuneError || n > 1 {
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		}
		dst = append(dst, "\uFFFD"...)
		i += brokenLength(s[i:])
	}
	return dst
}

// brokenLength is the length of the broken character at the beginning of s: the bytes that could
// begin a valid one. These are the "maximal subparts" of chapter 3.9 of the Unicode standard.
func brokenLength(s string) int {
	lead := s[0]
	low, high, more := byte(0x80), byte(0xBF), 0
	switch {
	// 0xC0, 0xC1 and 0xF5 on begin nothing: they would be longer than need be, or beyond U+10FFFF.
	case lead >= 0xC2 && lead <= 0xDF:
		more = 1
	case lead >= 0xE0 && lead <= 0xEF:
		more = 2
	case lead >= 0xF0 && lead <= 0xF4:
		more = 3
	}
	// The second byte has a narrower range after these, for the same reasons, and for surrogates
	// after 0xED.
	switch lead {
	case 0xE0:
		low = 0xA0
	case 0xED:
		high = 0x9F
	case 0xF0:
		low = 0x90
	case 0xF4:
		high = 0x8F
	}
	n := 1
	for ; n <= more && n < len(s) && s[n] >= low && s[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}
