package tokenizer

// A scanner finds the next stretch of a text for a Split: from s[i], where the last stretch ended,
// to end. matched reports whether the stretch is a match of the pattern, or the text before the
// next match. It must advance: end > i. Only a regular expression needs the budget. The scanners
// below are hand-written for the patterns of real models. Each comment holds its pattern, and
// FuzzScanners compares each one with the regular expression.
type scanner interface {
	next(b *budget, s string, i int) (end int, matched bool)
}

// spaces ends all patterns of the GPT family: `\s*[\r\n]+|\s+(?!\S)|\s+`, with lines, or the last
// two without. s[i] must be a space.
func (t *unicodeTables) spaces(s string, i int, lines bool) int {
	var last, newline, n int // where the last character begins; where the last line break ends
	end := i
	for end < len(s) {
		m, size := t.at(s, end)
		if m&space == 0 {
			break
		}
		if c := s[end]; c == '\n' || c == '\r' {
			newline = end + 1
		}
		last = end
		end += size
		n++
	}
	switch {
	case lines && newline > 0: // \s* takes all and gives back up to the last line break
		return newline
	case end == len(s) || n == 1:
		return end
	default: // the look-ahead leaves the last space to the word after it
		return last
	}
}

// lineBreaks is the end of `[\r\n]*`, or of `[\r\n/]*`.
func lineBreaks(s string, i int, slash bool) int {
	for i < len(s) && (s[i] == '\n' || s[i] == '\r' || slash && s[i] == '/') {
		i++
	}
	return i
}

// contraction is the end of `'s|'t|'re|'ve|'m|'ll|'d` at s[i], or i. With fold it is under (?i:…),
// where U+017F (ſ) is an s; no other character outside ASCII folds to these letters.
func contraction(s string, i int, fold bool) int {
	if i+1 >= len(s) || s[i] != '\'' {
		return i
	}
	a, b := s[i+1], byte(0)
	if i+2 < len(s) {
		b = s[i+2]
	}
	if fold {
		if a == 0xC5 && b == 0xBF {
			return i + 3
		}
		a, b = a|0x20, b|0x20
	}
	switch {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return i + 2
	case a == 'r' && b == 'e' || a == 'v' && b == 'e' || a == 'l' && b == 'l':
		return i + 3
	default:
		return i
	}
}

// digits is the end of at most most characters of \p{N} from s[i].
func (t *unicodeTables) digits(s string, i, most int) int {
	for ; most > 0 && i < len(s); most-- {
		m, n := t.at(s, i)
		if m&number == 0 {
			break
		}
		i += n
	}
	return i
}

// gpt2 is the pattern within ByteLevel:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
type gpt2 struct{ *unicodeTables }

func (g gpt2) next(_ *budget, s string, i int) (int, bool) {
	// Each of the three kinds may have one space before it; the last space before something else is
	// left to spaces.
	if end := contraction(s, i, false); end > i {
		return end, true
	}
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
	}
	switch m, _ := g.at(s, j); {
	case m&letter != 0:
		return g.run(s, j, letter), true
	case m&number != 0:
		return g.run(s, j, number), true
	case m&space == 0:
		return g.runNot(s, j, space|letter|number), true
	default:
		return g.spaces(s, i, false), true
	}
}

// cl100k is the pattern of GPT-4, Llama 3, Qwen, GLM-4 and others; they differ in the parts written
// … here:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?…+|\p{N}…| ?[^\s…\p{N}]+[\r\n]*
//	|\s*[\r\n]+|\s+(?!\S)|\s+
type cl100k struct {
	*unicodeTables
	letters mask // the … of words: \p{L}, or [\p{L}\p{M}]
	most    int  // the … of numbers: {1,3} or one
}

func (c cl100k) next(_ *budget, s string, i int) (int, bool) {
	// Letters and digits begin no contraction, so the order of the alternatives does not matter to
	// them.
	m, n := c.at(s, i)
	if m&c.letters != 0 {
		return c.run(s, i+n, c.letters), true
	}
	if m&number != 0 {
		return c.digits(s, i+n, c.most-1), true
	}
	first := s[i]
	if first == '\'' {
		if end := contraction(s, i, true); end > i {
			return end, true
		}
	}
	// Any one other character belongs to the word after it: a space, a bracket, a tab.
	j := i + n
	if first != '\r' && first != '\n' && j < len(s) {
		if m, n := c.at(s, j); m&c.letters != 0 {
			return c.run(s, j+n, c.letters), true
		}
	}
	return c.rest(s, i, m, c.letters|number|space, false), true
}

// rest is ` ?[^…]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, where m is the class of s[i] and not is the
// set of ….
func (t *unicodeTables) rest(s string, i int, m, not mask, slash bool) int {
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
		m, _ = t.at(s, j)
	}
	if m&not == 0 {
		return lineBreaks(s, t.runNot(s, j, not), slash)
	}
	return t.spaces(s, i, true)
}

// o200k is the pattern of GPT-4o, GPT-OSS, Llama 4 and Mistral's tokenizers, which differ in the
// parts written … here:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+…
//	|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*…
//	|\p{N}…| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
type o200k struct {
	*unicodeTables
	contractions bool // the … of words: (?i:'s|'t|'re|'ve|'m|'ll|'d)? or nothing
	most         int  // the … of numbers: {1,3} or one
}

const (
	capital = upper | other | mark // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	small   = lower | other | mark // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

func (o o200k) next(_ *budget, s string, i int) (int, bool) {
	m, n := o.at(s, i)
	if m&number != 0 {
		return o.digits(s, i+n, o.most-1), true
	}
	if end := o.word(s, i, m, n); end > i {
		if o.contractions {
			end = contraction(s, end, true)
		}
		return end, true
	}
	return o.rest(s, i, m, letter|number|space, true), true
}

// word is the end of one of the two alternatives for words, or i.
func (o o200k) word(s string, i int, m mask, n int) int {
	// The optional prefix is taken first and given back where nothing fits behind it. A mark can be
	// both: the prefix of a word, and a part of one.
	prefixed := m&(letter|number) == 0 && s[i] != '\r' && s[i] != '\n'
	bare := m&(letter|mark) != 0
	if prefixed && i+n < len(s) {
		if end := o.endsSmall(s, i+n); end > i+n {
			return end
		}
	}
	if bare {
		if end := o.endsSmall(s, i); end > i {
			return end
		}
	}
	if prefixed {
		if end := o.run(s, i+n, capital); end > i+n {
			return o.run(s, end, small)
		}
	}
	if bare {
		if end := o.run(s, i, capital); end > i {
			return o.run(s, end, small)
		}
	}
	return i
}

// endsSmall is the end of `[capital]*[small]+` from s[i], or i. The capitals take all they can and,
// where no small letter follows, give back up to the last character that is of both sets.
func (o o200k) endsSmall(s string, i int) int {
	end, both := i, i
	for end < len(s) {
		m, n := o.at(s, end)
		if m&capital == 0 {
			if m&small != 0 {
				return o.run(s, end+n, small)
			}
			break
		}
		end += n
		if m&small != 0 {
			both = end
		}
	}
	return both
}
