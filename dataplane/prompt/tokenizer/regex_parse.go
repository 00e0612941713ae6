package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is a part of a regular expression. One field group is set, by kind.
type node struct {
	kind     nodeKind
	set      set     // oneOf
	parts    []*node // sequence, choice; the one part of the others
	min, max int     // repeat; max is -1 where there is no limit
	mode     repeatMode
	negative bool // ahead, behind
}

type nodeKind uint8

const (
	oneOf       nodeKind = iota // one character of a set
	sequence                    // parts one after another; none is the empty match
	choice                      // the first of parts that fits
	repeat                      // a part min to max times
	atomicGroup                 // a part, without going back into it
	ahead                       // the text behind
	behind                      // the text before, one character
	textStart
	textEnd
	lineStart
	lineEnd
)

type repeatMode uint8

const (
	greedy repeatMode = iota
	lazy
	possessive
)

// maxRepeat bounds {n,m}, which is compiled by copying.
const maxRepeat = 1000

// parser reads the part of Oniguruma's Ruby syntax that has one meaning here. Everything else is an
// error that names it.
type parser struct {
	t    *unicodeTables
	src  string
	i    int
	fold bool  // under (?i)
	err  error // the first; the pattern then reads as if it ended there
}

func parseRegex(t *unicodeTables, pattern string) (*node, error) {
	p := &parser{t: t, src: pattern}
	if !utf8.ValidString(pattern) {
		p.fail("a pattern that is not UTF-8")
	}
	n := p.choice()
	if !p.done() {
		p.fail("a ) without (")
	}
	return n, p.err
}

// fail notes a construct that is not read here. Sets and nodes behind it are any.
func (p *parser) fail(construct string) {
	if p.err == nil {
		p.err = fmt.Errorf("regular expression %q at %d: %w", p.src, p.i, unsupported(construct))
	}
	p.i = len(p.src)
}

// eat skips s where it comes next.
func (p *parser) eat(s string) bool {
	if !strings.HasPrefix(p.src[p.i:], s) {
		return false
	}
	p.i += len(s)
	return true
}

// rune takes the next character. There must be one.
func (p *parser) rune() rune {
	r, n := decode(p.src, p.i)
	p.i += n
	return r
}

func (p *parser) done() bool { return p.i >= len(p.src) }

func (p *parser) choice() *node {
	n := &node{kind: choice, parts: []*node{p.sequence()}}
	for p.eat("|") {
		n.parts = append(n.parts, p.sequence())
	}
	if len(n.parts) == 1 {
		return n.parts[0]
	}
	return n
}

func (p *parser) sequence() *node {
	n := &node{kind: sequence}
	for !p.done() && p.src[p.i] != '|' && p.src[p.i] != ')' {
		// (?i) alone is read where it begins the pattern. Elsewhere it also takes in the
		// alternatives after it, which in other syntaxes it does not.
		if p.i == 0 && p.eat("(?i)") {
			p.fold = true
			continue
		}
		n.parts = append(n.parts, p.repeats(p.atom()))
	}
	p.checkFolds(n)
	return n
}

// checkFolds refuses letters that (?i) would also match as one character, such as ss as ß.
func (p *parser) checkFolds(n *node) {
	for i := 1; p.fold && i < len(n.parts); i++ {
		a, b := n.parts[i-1], n.parts[i]
		for _, two := range []string{"ss", "st", "ff", "fi", "fl"} {
			if a.kind == oneOf && b.kind == oneOf && a.set.has(rune(two[0])) && b.set.has(rune(two[1])) {
				p.fail("(?i) over " + strconv.Quote(two) + ", which also stands for one character")
			}
		}
	}
}

func (p *parser) atom() *node {
	switch {
	case p.eat("("):
		return p.group()
	case p.eat("["):
		return &node{kind: oneOf, set: p.class()}
	case p.eat("."):
		return &node{kind: oneOf, set: only('\n').invert()}
	case p.eat("^"):
		return &node{kind: lineStart}
	case p.eat("$"):
		return &node{kind: lineEnd}
	case p.eat(`\A`):
		return &node{kind: textStart}
	case p.eat(`\z`):
		return &node{kind: textEnd}
	case p.eat(`\`):
		return &node{kind: oneOf, set: p.escape()}
	}
	r := p.rune()
	if strings.ContainsRune("*+?{", r) {
		p.fail("a quantifier at the beginning")
	}
	return &node{kind: oneOf, set: p.literal(r)}
}

// literal is one character, with its other cases under (?i).
func (p *parser) literal(r rune) set {
	if !p.fold {
		return only(r)
	}
	// Folding is asked for in models for English contractions alone; other alphabets have rules of
	// one to many.
	low := r | 0x20
	switch {
	case r >= 0x80:
		p.fail(fmt.Sprintf("(?i) over %q", r))
	case low < 'a' || low > 'z':
	case low == 's':
		return only('s', 'S', 'ſ')
	case low == 'k':
		return only('k', 'K', '\u212A')
	default:
		return only(low, low-0x20)
	}
	return only(r)
}

func (p *parser) group() *node {
	fold := p.fold
	defer func() { p.fold = fold }()
	n := &node{}
	// Everything else that may follow "(?" is refused: names, conditions, absent groups, options of
	// lines.
	switch {
	case p.eat("?:"):
		n.kind = sequence
	case p.eat("?i:"):
		n.kind, p.fold = sequence, true
	case p.eat("?-i:"):
		n.kind, p.fold = sequence, false
	case p.eat("?>"):
		n.kind = atomicGroup
	case p.eat("?="):
		n.kind = ahead
	case p.eat("?!"):
		n.kind, n.negative = ahead, true
	case p.eat("?<="):
		n.kind = behind
	case p.eat("?<!"):
		n.kind, n.negative = behind, true
	case strings.HasPrefix(p.src[p.i:], "?"):
		p.fail("the group (" + p.src[p.i:min(len(p.src), p.i+3)] + "…)")
	default:
		n.kind = sequence // captures are not used
	}
	n.parts = []*node{p.choice()}
	// The choice ends either at this group's end or at the end of the pattern.
	if !p.eat(")") {
		p.fail("a ( without )")
	}
	if n.kind == behind && !oneCharacter(n.parts[0]) {
		p.fail("a look-behind of more than one character")
	}
	return n
}

// oneCharacter reports whether a node matches exactly one character.
func oneCharacter(n *node) bool {
	switch n.kind {
	case oneOf:
		return true
	case sequence:
		return len(n.parts) == 1 && oneCharacter(n.parts[0])
	case choice:
		return !slices.ContainsFunc(n.parts, func(part *node) bool { return !oneCharacter(part) })
	default:
		return false
	}
}

// repeats reads the quantifiers after an atom.
func (p *parser) repeats(n *node) *node {
	for !p.done() {
		low, high, interval := 0, -1, false
		switch {
		case p.eat("*"):
		case p.eat("+"):
			low = 1
		case p.eat("?"):
			high = 1
		case p.src[p.i] == '{':
			low, high = p.interval()
			interval = true
		default:
			return n
		}
		r := &node{kind: repeat, parts: []*node{n}, min: low, max: high}
		switch {
		case p.eat("?"):
			if interval {
				p.fail("{n,m}?")
			}
			r.mode = lazy
		case interval: // {n,m}+ is a repetition of the repetition in Ruby's syntax
		case p.eat("+"):
			r.mode = possessive
		}
		if p.fold && len(n.parts) == 0 && n.kind == oneOf && (n.set.has('s') || n.set.has('f')) && high != 1 {
			p.fail("(?i) over a repeated s or f, which also stands for one character")
		}
		n = r
	}
	return n
}

// interval reads {n}, {n,}, {,m} or {n,m}.
func (p *parser) interval() (low, high int) {
	text, _, found := strings.Cut(p.src[p.i+1:], "}")
	if !found {
		p.fail("a { without }")
		return 0, 0
	}
	p.i += len(text) + 2
	first, second, comma := strings.Cut(text, ",")
	valid := text != ","
	number := func(s string, empty int) int {
		if s == "" && comma {
			return empty
		}
		n, err := strconv.Atoi(s)
		valid = valid && err == nil && n >= 0 && n <= maxRepeat
		return n
	}
	low = number(first, 0)
	if high = low; comma {
		high = number(second, -1)
	}
	if !valid || high >= 0 && high < low {
		p.fail("the quantifier {" + text + "}")
	}
	return low, high
}
