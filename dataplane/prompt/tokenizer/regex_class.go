package tokenizer

import (
	"strconv"
	"strings"
)

// class reads the inside of [ ], behind the bracket: characters, ranges, escapes, classes within,
// and && between parts.
func (p *parser) class() set {
	negative := p.eat("^")
	var result, part set
	joined := false // result holds the set before an &&
	join := func() {
		if joined {
			part = result.intersect(part)
		}
	}
	for first := true; ; first = false {
		switch {
		case p.done():
			p.fail("a [ without ]")
			return nil
		case p.eat("]"):
			if first {
				p.fail("an empty class")
			}
			if join(); negative {
				part = part.invert()
			}
			return part
		case p.eat("&&"):
			join()
			result, part, joined = part, nil, true
		// In Oniguruma these depend on options, and only half of them are sets that are known here.
		case p.eat("[:"):
			p.fail("a POSIX class [[:…:]]")
		case p.eat("["):
			part = union(part, p.class())
		default:
			item := p.item()
			if p.fold {
				item = p.foldASCII(item)
			}
			part = union(part, item)
		}
	}
}

// foldASCII adds the other case of ASCII letters, and the two letters outside ASCII that fold to
// one of them. Other characters may fold to several, which is left to the library.
func (p *parser) foldASCII(s set) set {
	var more []span
	for _, x := range s {
		if x.hi >= 0x80 {
			p.fail("a class of more than ASCII under (?i)")
			return s
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
	return union(s, more)
}

// item reads one character, one range or one escape of a class.
func (p *parser) item() set {
	low := p.classChar()
	single := len(low) == 1 && low[0].lo == low[0].hi
	// A - before ] or after a class such as \s is itself.
	if !single || !strings.HasPrefix(p.src[p.i:], "-") || strings.HasPrefix(p.src[p.i:], "-]") {
		return low
	}
	p.i++
	// Oniguruma warns of a - before a class or && and goes on in its own way.
	if strings.HasPrefix(p.src[p.i:], "[") || strings.HasPrefix(p.src[p.i:], "&&") || p.done() {
		p.fail("a range without its end")
		return nil
	}
	high := p.classChar()
	if len(high) != 1 || high[0].lo != high[0].hi || high[0].lo < low[0].lo {
		p.fail("a range that ends before its beginning")
		return nil
	}
	return set{{low[0].lo, high[0].lo}}
}

func (p *parser) classChar() set {
	if p.eat(`\`) {
		return p.escape()
	}
	return only(p.rune())
}

// escape reads an escape behind its backslash, within or outside of a class.
func (p *parser) escape() set {
	if p.done() {
		p.fail(`a \ at the end`)
		return nil
	}
	r := p.rune()
	// Escapes that are not here have other meanings in other places, such as \b and \1, or differ
	// by syntax, such as \h.
	controls := map[rune]rune{'n': '\n', 'r': '\r', 't': '\t', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1B}
	classes := map[rune]string{'s': "space", 'd': "digit", 'w': "onigword"}
	switch {
	case controls[r] != 0:
		return only(controls[r])
	case classes[r] != "":
		return normal(p.t.sets[classes[r]])
	case classes[r|0x20] != "":
		return normal(p.t.sets[classes[r|0x20]]).invert()
	case r == 'p' || r == 'P':
		return p.property(r == 'P')
	case r == 'x':
		return p.hex()
	case r == 'u' && len(p.src)-p.i >= 4:
		return p.hexDigits(4)
	case r >= 0x80 || r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9':
		p.fail(`the escape \` + string(r))
	}
	return p.literal(r)
}

func (p *parser) hex() set {
	if p.eat("{") {
		digits, _, found := strings.Cut(p.src[p.i:], "}")
		if !found {
			p.fail(`\x{ without }`)
			return nil
		}
		s := p.hexDigits(len(digits))
		p.eat("}")
		return s
	}
	if len(p.src)-p.i < 2 {
		p.fail(`\x without two digits`)
		return nil
	}
	s := p.hexDigits(2)
	if s[0].lo >= 0x80 {
		p.fail(`\x of a byte that is not a character`)
	}
	return s
}

// hexDigits reads the number of a character.
func (p *parser) hexDigits(n int) set {
	digits := p.src[p.i : p.i+n]
	p.i += n
	r, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || r > 0x10FFFF {
		p.fail("the character number " + strconv.Quote(digits))
		r = 0
	}
	return only(rune(r))
}

func (p *parser) property(negative bool) set {
	if !p.eat("{") {
		p.fail(`\p without {name}`)
		return nil
	}
	if p.eat("^") {
		negative = !negative
	}
	name, _, found := strings.Cut(p.src[p.i:], "}")
	if !found {
		p.fail(`\p{ without }`)
		return nil
	}
	p.i += len(name) + 1
	s, ok := propertySet(p.t, name)
	if !ok {
		p.fail(`\p{` + name + "}")
	}
	if negative {
		s = s.invert()
	}
	return s
}
