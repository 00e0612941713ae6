package tokenizer

import "strings"

// Scan is all stretches that a pattern makes of a text, by its scanner by hand and by the regular
// expression: where each ends, negative where it did not match.
func Scan(pattern, text string) (byHand, byRegex []int, err error) {
	t, err := loadTables()
	if err != nil {
		return nil, nil, err
	}
	r, ok := compiled[pattern]
	if !ok {
		if r, err = compileRegex(t, pattern); err != nil {
			return nil, nil, err
		}
		compiled[pattern] = r
	}
	return stretches(newKnownScanner(t, pattern), text), stretches(r, text), nil
}

// compiled keeps the patterns of Scan, since compiling them takes longer than scanning.
var compiled = map[string]*regex{}

func stretches(s scanner, text string) []int {
	var out []int
	b := newBudget(len(text))
	for i := 0; i < len(text); {
		end, matched := s.next(&b, text, i)
		i = end
		if matched {
			out = append(out, end)
		} else {
			out = append(out, -end)
		}
	}
	return out
}

// KnownPatterns are the patterns with a scanner by hand.
func KnownPatterns() []string {
	const one, three = `\p{N}`, `\p{N}{1,3}`
	return []string{
		patternGPT2, patternCL100K(false, three), patternCL100K(false, one), patternCL100K(true, one), patternCL100K(true, three),
		patternO200K(true, three), patternO200K(true, one), patternO200K(false, one), patternO200K(false, three),
		patternDeepSeek, patternChinese, one, three,
	}
}

// IsKnown reports whether a pattern has a scanner by hand.
func IsKnown(pattern string) bool {
	t, err := loadTables()
	return err == nil && newKnownScanner(t, pattern) != nil
}

// CompileRegex returns the error of a pattern.
func CompileRegex(pattern string) error {
	t, err := loadTables()
	if err != nil {
		return err
	}
	_, err = compileRegex(t, pattern)
	return err
}

// Whitespace is whether the three tables that this package takes for one are the same.
func Whitespace() bool {
	t, err := loadTables()
	if err != nil {
		return false
	}
	same := func(a, b set) bool { return len(union(a, b)) == len(a) && len(union(a, b)) == len(b) }
	return same(normal(t.sets["space"]), normal(t.sets["white"])) && same(normal(t.sets["space"]), normal(t.sets["strip"]))
}

// MergeBytes merges a piece by the merges alone, without the cache and whole tokens; long uses the
// heap for any length.
func (t *Tokenizer) MergeBytes(piece string, long bool) []uint32 {
	var w scratch
	if !long {
		return t.model.merge(nil, &w, piece)
	}
	if t.model.bytes {
		t.model.startBytes(&w, piece)
	} else {
		t.model.startChars(&w, piece)
	}
	if len(w.syms) == 0 {
		return nil
	}
	return t.model.merges.mergeLong(nil, &w)
}

// NaiveMerge is the merging of a piece as the definition has it: again and again the pair of the
// lowest rank, leftmost first.
func (t *Tokenizer) NaiveMerge(piece string) []uint32 {
	var w scratch
	if t.model.bytes {
		t.model.startBytes(&w, piece)
	} else {
		t.model.startChars(&w, piece)
	}
	syms := w.syms
	for {
		best, at := noPair, -1
		for i := 1; i < len(syms); i++ {
			if v := t.model.merges.of(syms[i-1], syms[i]); v < best {
				best, at = v, i-1
			}
		}
		if at < 0 {
			return syms
		}
		syms = append(syms[:at:at], append([]uint32{uint32(best)}, syms[at+2:]...)...)
	}
}

// AppendPieces is Append of a text without added tokens.
func (t *Tokenizer) AppendPieces(text string) []uint32 {
	w := scratch{budget: newBudget(len(text))}
	return t.steps(nil, &w, 0, t.normalize(&w, text), true)
}

// AppendWhole is Append of a text that the pre-tokenizer leaves whole, without the cuts.
func (t *Tokenizer) AppendWhole(text string) []uint32 {
	w := scratch{budget: newBudget(len(text))}
	return t.model.lookup(nil, &w, t.normalize(&w, text))
}

// ShrinkCache leaves room for two pieces, so that each look-up meets another one's.
func (t *Tokenizer) ShrinkCache() { t.model.cache = newCache(1) }

// Normalize is s in a normalization form: NFC, NFD, NFKC or NFKD.
func Normalize(name, s string) string {
	t, err := loadTables()
	if err != nil {
		return err.Error()
	}
	n, err := newNormalizer(t, []byte(`{"type":"`+name+`"}`))
	if err != nil {
		return err.Error()
	}
	return strings.Clone(n[0].normalize(&scratch{budget: newBudget(len(s))}, s))
}

// NormalizeWhole is NFC of s without the scan for settled text.
func NormalizeWhole(s string) string {
	t, err := loadTables()
	if err != nil {
		return err.Error()
	}
	var runes []rune
	return string(t.forms.append(nil, &runes, s, form{compose: true}))
}

// ScanRegex checks that a regular expression covers a text in steps forward.
func ScanRegex(t interface{ Errorf(string, ...any) }, pattern, text string) {
	tables, err := loadTables()
	if err != nil {
		return
	}
	r, err := compileRegex(tables, pattern)
	if err != nil {
		return
	}
	for i := 0; i < len(text); {
		b := newBudget(len(text))
		end, _ := r.next(&b, text, i)
		if end <= i || end > len(text) {
			t.Errorf("%q in %q goes from %d to %d", pattern, text, i, end)
			return
		}
		i = end
	}
}

// The Must methods are those without Must, of strings that stay within their budget.

func must(ids []uint32, err error) []uint32 {
	if err != nil {
		panic(err)
	}
	return ids
}

func (t *Tokenizer) MustAppend(dst []uint32, text string) []uint32 {
	return must(t.Append(dst, []byte(text)))
}

func (t *Tokenizer) MustAppendSpecial(dst []uint32, text string) []uint32 {
	return must(t.AppendSpecial(dst, []byte(text)))
}

func (t *Tokenizer) MustAppendRest(dst []uint32, rest string) []uint32 {
	return must(t.AppendRest(dst, []byte(rest)))
}
