package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// forms are the tables of Unicode normalization, in the version that the library carries (Unicode
// 9, where Go's golang.org/x/text is at 15 or 17). x/text would also break runs of more than 30
// marks with U+034F, which the library does not.
type forms struct {
	class      map[rune]uint8   // canonical combining class, where it is not 0
	canonical  map[rune]string  // full canonical decomposition
	compatible map[rune]string  // full compatibility decomposition, where it is another one
	compose    map[[2]rune]rune // primary composites
}

func newForms() forms {
	return forms{
		class: map[rune]uint8{}, canonical: map[rune]string{}, compatible: map[rune]string{}, compose: map[[2]rune]rune{},
	}
}

// Hangul syllables are composed by arithmetic, chapter 3.12 of the Unicode standard.
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7
	countL, countV, countT, countS     = 19, 21, 28, 11172
)

// form is one of the four normalization forms.
type form struct {
	compat, compose bool
}

// markUnsettled sets the bit of each character that NFC may change or that may join or reorder with
// the character before it. A text without such characters is in NFC.
func (f *forms) markUnsettled(flat []mask) {
	for r := range f.class {
		flat[r] |= unsettled
	}
	var buffer []rune
	for r, to := range f.canonical {
		if composed := f.append(nil, &buffer, to, form{compose: true}); string(composed) != string(r) {
			flat[r] |= unsettled
		}
	}
	// The second of a pair may join the first, and so may vowels and final consonants of Hangul.
	for pair := range f.compose {
		flat[pair[1]] |= unsettled
	}
	for i := range rune(countV) {
		flat[hangulV+i] |= unsettled
	}
	for i := range rune(countT) {
		flat[hangulT+i] |= unsettled
	}
}

// append adds s in a normalization form to dst. s must be valid UTF-8; buffer is reused.
func (f *forms) append(dst []byte, buffer *[]rune, s string, to form) []byte {
	runes := (*buffer)[:0]
	for _, r := range s {
		runes = f.decompose(runes, r, to.compat)
	}
	*buffer = runes
	f.sort(runes)
	if to.compose {
		runes = f.composeAll(runes)
	}
	for _, r := range runes {
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

func (f *forms) decompose(dst []rune, r rune, compat bool) []rune {
	if s := r - hangulS; s >= 0 && s < countS {
		dst = append(dst, hangulL+s/(countV*countT), hangulV+s%(countV*countT)/countT)
		if t := s % countT; t != 0 {
			dst = append(dst, hangulT+t)
		}
		return dst
	}
	if compat {
		if to, ok := f.compatible[r]; ok {
			return append(dst, []rune(to)...)
		}
	}
	if to, ok := f.canonical[r]; ok {
		return append(dst, []rune(to)...)
	}
	return append(dst, r)
}

// sort is the canonical ordering of chapter 3.11: it puts each run of marks in the order of their
// classes and keeps the order within a class.
func (f *forms) sort(runes []rune) {
	for i := 0; i < len(runes); {
		if f.class[runes[i]] == 0 {
			i++
			continue
		}
		end := i + 1
		for end < len(runes) && f.class[runes[end]] != 0 {
			end++
		}
		if end-i > 1 {
			slices.SortStableFunc(runes[i:end], func(a, b rune) int { return int(f.class[a]) - int(f.class[b]) })
		}
		i = end
	}
}

// composeAll joins pairs in place: each character with the last starter, unless something between
// them blocks it.
func (f *forms) composeAll(runes []rune) []rune {
	out, starter := runes[:0], -1
	var last uint8 // the class of the character that was kept last after the starter
	for _, r := range runes {
		class := f.class[r]
		if starter >= 0 && (starter == len(out)-1 || last < class) {
			if c, ok := f.pair(out[starter], r); ok {
				out[starter] = c
				continue
			}
		}
		out = append(out, r)
		last = class
		if class == 0 {
			starter = len(out) - 1
		}
	}
	return out
}

// pair is the primary composite of two characters.
func (f *forms) pair(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < countL && v >= 0 && v < countV {
		return hangulS + (l*countV+v)*countT, true
	}
	if s, t := a-hangulS, b-hangulT; s >= 0 && s < countS && s%countT == 0 && t > 0 && t < countT {
		return a + t, true
	}
	c, ok := f.compose[[2]rune{a, b}]
	return c, ok
}
