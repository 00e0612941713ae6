package tokenizer

import (
	"strconv"
	"strings"
)

// classScanner reads the inside of [ ], behind the bracket: characters, ranges, escapes, classes
// within, and && between parts.
func (p *parser) class() (set, error) {
	negative := p.eat("^")
	var result, part set
	joined := false // result holds the set before an &&
	for first := true; ; first = false {
		switch {
		case p.done():
			return nil, unsupported("a [ without ]")
		case p.eat("]"):
			if first {
				return nil, unsupported("an empty class")
			}
			if joined {
				part = result.intersect(part)
			}
			if negative {
				part = part.invert()
			}
			return part, nil
		case p.eat("&&"):
			if joined {
				part = result.intersect(part)
			}
			result, part, joined = part, nil, true
		// In Oniguruma these depend on options, and only half of them are sets that are known here.
		case p.eat("[:"):
			return nil, unsupported("a POSIX class [[:…:]]")
		case p.eat("["):
			inner, err := p.class()
			if err != nil {
				return nil, err
			}
			part = union(part, inner)
		default:
			item, err := p.item()
			if err != nil {
				return nil, err
			}
			if p.fold {
				if item, err = foldASCII(item); err != nil {
					return nil, err
				}
			}
			part = union(part, item)
		}
	}
}

// foldASCII adds the other case of ASCII letters, and the two letters outside ASCII that fold to
// one of them. Other characters may fold to several, which is left to the library.
func foldASCII(s set) (set, error) {
	var more []span
	for _, x := range s {
		if x.hi >= 0x80 {
			return nil, unsupported("a class of more than ASCII under (?i)")
		}
		for r := x.lo; r <= x.hi; r++ {
			if low := r | 0x20; low >= 'a' && low <= 'z' {
				more = append(more, span{low, low}, span{low - 0x20, low - 0x20})
			}
			switch r | 0x20 {
			case 's':
				more = append(more, span{'ſ', 'ſ'})
			case 'k':
				more = append(more, span{'\u212A', '\u212A'})
			}
		}
	}
	return union(s, more), nil
}

// item reads one character, one range or one escape of a class.
func (p *parser) item() (set, error) {
	low, err := p.classChar()
	if err != nil {
		return nil, err
	}
	single := len(low) == 1 && low[0].lo == low[0].hi
	// A - before ] or after a class such as \s is itself.
	if !single || !strings.HasPrefix(p.src[p.i:], "-") || strings.HasPrefix(p.src[p.i:], "-]") {
		return low, nil
	}
	p.i++
	// Oniguruma warns of a - before a class or && and goes on in its own way.
	if strings.HasPrefix(p.src[p.i:], "[") || strings.HasPrefix(p.src[p.i:], "&&") || p.done() {
		return nil, unsupported("a range without its end")
	}
	high, err := p.classChar()
	if err != nil {
		return nil, err
	}
	if len(high) != 1 || high[0].lo != high[0].hi || high[0].lo < low[0].lo {
		return nil, unsupported("a range that ends before its beginning")
	}
	return set{{low[0].lo, high[0].lo}}, nil
}

func (p *parser) classChar() (set, error) {
	if p.eat(`\`) {
		return p.escape()
	}
	return only(p.rune()), nil
}

// escape reads an escape behind its backslash, within or outside of a class.
func (p *parser) escape() (set, error) {
	if p.done() {
		return nil, unsupported(`a \ at the end`)
	}
	r := p.rune()
	// Escapes that are not here have other meanings in other places, such as \b and \1, or differ
	// by syntax, such as \h.
	controls := map[rune]rune{'n': '\n', 'r': '\r', 't': '\t', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1B}
	classes := map[rune]string{'s': "space", 'd': "digit", 'w': "onigword"}
	switch {
	case controls[r] != 0:
		return only(controls[r]), nil
	case classes[r] != "":
		return normal(p.t.sets[classes[r]]), nil
	case classes[r|0x20] != "":
		return normal(p.t.sets[classes[r|0x20]]).invert(), nil
	case r == 'p' || r == 'P':
		return p.property(r == 'P')
	case r == 'x':
		return p.hex()
	case r == 'u' && len(p.src)-p.i >= 4:
		p.i += 4
		return parseHex(p.src[p.i-4 : p.i])
	case r >= 0x80 || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9':
		return nil, unsupported(`the escape \` + string(r))
	}
	return p.foldOnly(r)
}

// foldOnly is an escaped character without a meaning of its own.
func (p *parser) foldOnly(r rune) (set, error) {
	n, err := p.literal(r)
	if err != nil {
		return nil, err
	}
	return n.set, nil
}

// hex reads the digits of \x: two, or any number in braces.
func (p *parser) hex() (set, error) {
	if p.eat("{") {
		digits, _, found := strings.Cut(p.src[p.i:], "}")
		if !found {
			return nil, unsupported(`\x{ without }`)
		}
		p.i += len(digits) + 1
		return parseHex(digits)
	}
	if len(p.src)-p.i < 2 {
		return nil, unsupported(`\x without two digits`)
	}
	p.i += 2
	s, err := parseHex(p.src[p.i-2 : p.i])
	if err == nil && s[0].lo >= 0x80 {
		return nil, unsupported(`\x of a byte that is not a character`)
	}
	return s, err
}

func parseHex(digits string) (set, error) {
	n, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || n > 0x10FFFF {
		return nil, unsupported("the character number " + strconv.Quote(digits))
	}
	return only(rune(n)), nil
}

// property reads {name} or {^name}.
func (p *parser) property(negative bool) (set, error) {
	if !p.eat("{") {
		return nil, unsupported(`\p without {name}`)
	}
	if p.eat("^") {
		negative = !negative
	}
	name, _, found := strings.Cut(p.src[p.i:], "}")
	if !found {
		return nil, unsupported(`\p{ without }`)
	}
	p.i += len(name) + 1
	s, ok := propertySet(p.t, name)
	if !ok {
		return nil, unsupported(`\p{` + name + "}")
	}
	if negative {
		s = s.invert()
	}
	return s, nil
}
