package tokenizer

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// mask is a character's set of classes in the Python library. A character is in at most one of the
// general categories, so tests of unions are one AND.
type mask uint16

const (
	upper mask = 1 << iota // Lu, Lt
	lower                  // Ll
	// Lm, Lo: letters that the o200k pattern takes for upper and lower case at once.
	other
	mark   // M
	number // N
	punct  // P
	symbol // S
	// \s of Oniguruma; the Rust crate's \s and char::is_whitespace are the same set.
	space
	word    // \w of the Rust crate regex, which bounds single_word tokens
	numeric // char::is_numeric of Rust, of a newer Unicode than Oniguruma's N
	// Separators of the pre-tokenizer Punctuation: those of ASCII, and P of an old Unicode.
	punctuation
	unsettled // may change under NFC, alone or after the character before it

	letter = upper | lower | other
)

//go:embed unicode.txt
var unicodeText string

// pageSize is the number of characters that share a page of the class table. 4,352 pages of 256, of
// which most are alike and shared, leave about 60 KB.
const pageSize = 256

// unicodeTables hold the classes, cases and normal forms of characters. They are read-only once
// built.
type unicodeTables struct {
	ascii [128]mask
	page  [0x110000 / pageSize]*[pageSize]mask
	sets  map[string]set // by name, for regular expressions: Lu, Han, space, …
	lower map[rune]string
	forms forms
}

// loadTables builds the tables at the first load of a tokenizer; it takes a few milliseconds.
var loadTables = sync.OnceValues(func() (*unicodeTables, error) { return parseTables(unicodeText) })

func (t *unicodeTables) maskOf(r rune) mask {
	return t.page[uint32(r)/pageSize][uint32(r)%pageSize]
}

// at is the class and the length in bytes of the character that begins at s[i]. The text must be
// valid UTF-8.
func (t *unicodeTables) at(s string, i int) (mask, int) {
	c := s[i]
	if c < 0x80 {
		return t.ascii[c], 1
	}
	return t.wide(s, i)
}

// wide is at for a character outside ASCII.
func (t *unicodeTables) wide(s string, i int) (mask, int) {
	r, n := decode(s, i)
	return t.maskOf(r), n
}

// decode reads the character at s[i], which must begin valid UTF-8: it checks nothing, unlike
// utf8.DecodeRuneInString, which the scanners would spend a third of their time in.
func decode(s string, i int) (rune, int) {
	switch c := s[i]; {
	case c < 0x80:
		return rune(c), 1
	case c < 0xE0:
		return rune(c&0x1F)<<6 | rune(s[i+1]&0x3F), 2
	case c < 0xF0:
		return rune(c&0x0F)<<12 | rune(s[i+1]&0x3F)<<6 | rune(s[i+2]&0x3F), 3
	default:
		return rune(c&0x07)<<18 | rune(s[i+1]&0x3F)<<12 | rune(s[i+2]&0x3F)<<6 | rune(s[i+3]&0x3F), 4
	}
}

// run is the end of the characters from s[i] that are in set.
func (t *unicodeTables) run(s string, i int, set mask) int {
	for i < len(s) {
		if c := s[i]; c < 0x80 {
			if t.ascii[c]&set == 0 {
				return i
			}
			i++
			continue
		}
		m, n := t.wide(s, i)
		if m&set == 0 {
			return i
		}
		i += n
	}
	return i
}

// runNot is the end of the characters from s[i] that are in no class of set.
func (t *unicodeTables) runNot(s string, i int, set mask) int {
	for i < len(s) {
		m, n := t.at(s, i)
		if m&set != 0 {
			return i
		}
		i += n
	}
	return i
}

// parseTables reads unicode.txt; its first lines describe it.
func parseTables(text string) (*unicodeTables, error) {
	t := &unicodeTables{sets: map[string]set{}, lower: map[rune]string{}, forms: newForms()}
	flat := make([]mask, 0x110000)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if err := parseTableLine(t, flat, fields); err != nil {
			return nil, fmt.Errorf("tokenizer: unicode.txt: %w", err)
		}
	}
	t.forms.markUnsettled(flat)
	foldPages(t, flat)
	return t, nil
}

// classMasks are the bits of classes in unicode.txt. Classes without one are for regular
// expressions only; white and strip are the same set as space, which a test holds.
var classMasks = map[string]mask{
	"Lu": upper, "Lt": upper, "Ll": lower, "Lm": other, "Lo": other, "Mn": mark, "Mc": mark, "Me": mark,
	"Nd": number, "Nl": number, "No": number, "Pc": punct, "Pd": punct, "Ps": punct, "Pe": punct, "Pi": punct,
	"Pf": punct, "Po": punct, "Sm": symbol, "Sc": symbol, "Sk": symbol, "So": symbol,
	"space": space, "numeric": numeric, "word": word, "punctuation": punctuation,
}

func parseTableLine(t *unicodeTables, flat []mask, fields []string) error {
	switch key := fields[0]; key {
	case "class":
		name := fields[1]
		return eachRange(fields[2:], func(first, last rune) {
			t.sets[name] = append(t.sets[name], span{first, last})
			for r := first; r <= last; r++ {
				flat[r] |= classMasks[name]
			}
		})
	case "ccc":
		class, err := strconv.ParseUint(fields[1], 10, 8)
		if err != nil {
			return err
		}
		return eachRange(fields[2:], func(first, last rune) {
			for r := first; r <= last; r++ {
				t.forms.class[r] = uint8(class)
			}
		})
	case "nfd", "nfkd", "lower", "compose":
		into := map[string]func(from []rune, to string){
			"nfd":     func(from []rune, to string) { t.forms.canonical[from[0]] = to },
			"nfkd":    func(from []rune, to string) { t.forms.compatible[from[0]] = to },
			"lower":   func(from []rune, to string) { t.lower[from[0]] = to },
			"compose": func(from []rune, to string) { t.forms.compose[[2]rune{from[0], from[1]}] = []rune(to)[0] },
		}[key]
		return eachMapping(fields[1:], into)
	default:
		return fmt.Errorf("unknown table %q", key)
	}
}

// eachRange calls f for each of ranges such as 41-5a.
func eachRange(ranges []string, f func(first, last rune)) error {
	for _, r := range ranges {
		first, last, found := strings.Cut(r, "-")
		if !found {
			last = first
		}
		a, err := parseRune(first)
		if err != nil {
			return err
		}
		b, err := parseRune(last)
		if err != nil {
			return err
		}
		f(a, b)
	}
	return nil
}

// eachMapping calls f for each mapping such as 41+300=c0.
func eachMapping(mappings []string, f func(from []rune, to string)) error {
	for _, m := range mappings {
		left, right, _ := strings.Cut(m, "=")
		from, err := parseRunes(left)
		if err != nil {
			return err
		}
		to, err := parseRunes(right)
		if err != nil {
			return err
		}
		f(from, string(to))
	}
	return nil
}

func parseRunes(s string) ([]rune, error) {
	var out []rune
	for part := range strings.SplitSeq(s, "+") {
		r, err := parseRune(part)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func parseRune(s string) (rune, error) {
	n, err := strconv.ParseUint(s, 16, 32)
	if err == nil && n > 0x10FFFF {
		err = strconv.ErrRange
	}
	return rune(n), err
}

// foldPages shares equal pages of the flat table.
func foldPages(t *unicodeTables, flat []mask) {
	copy(t.ascii[:], flat)
	seen := map[[pageSize]mask]*[pageSize]mask{}
	for i := range t.page {
		page := [pageSize]mask(flat[i*pageSize:])
		if seen[page] == nil {
			seen[page] = &page
		}
		t.page[i] = seen[page]
	}
}
