package chattemplate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth bounds the nesting of requests. Python reads about 1,000 levels; no template prints
// as many.
const maxJSONDepth = 200

// decoder makes values of JSON. Strings without escapes share the input's bytes.
type decoder struct {
	s     *state
	src   []byte
	pos   int
	depth int
	// orjson reads as the library of that name does, which SGLang uses for bodies and for the
	// arguments of tool calls: integers beyond 64 bits are floats there, and NaN is refused.
	orjson bool
}

// decodeJSON makes a value of all of src. Bytes that Python does not read as JSON are left to the
// worker, which refuses such a request by itself.
func decodeJSON(s *state, src []byte, orjson bool) value {
	d := decoder{s: s, src: src, orjson: orjson}
	if !utf8.Valid(src) {
		return d.fail("not UTF-8")
	}
	v := d.value()
	if d.space(); d.pos != len(src) {
		return d.fail("more behind the value")
	}
	return v
}

// fail leaves the request to the worker.
func (d *decoder) fail(what string) value {
	return d.s.unsupported(fmt.Sprintf("not JSON: %s at byte %d", what, d.pos))
}

// space goes over white space: the four characters that JSON knows, not Python's.
func (d *decoder) space() {
	for d.pos < len(d.src) {
		switch d.src[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

func (d *decoder) skip(c byte) bool {
	if d.space(); d.pos < len(d.src) && d.src[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

// value reads any value. Nesting is bounded here, so nothing that walks a request's values needs a
// bound of its own for it.
func (d *decoder) value() value {
	d.space()
	if d.pos == len(d.src) {
		return d.fail("ends early")
	}
	switch c := d.src[d.pos]; {
	case c == '"':
		return strValue(d.text())
	case c == '{' || c == '[':
		if d.depth++; d.depth > maxJSONDepth {
			return d.fail("nested too deep")
		}
		defer func() { d.depth-- }()
		d.pos++
		if c == '[' {
			return d.list()
		}
		return d.dict()
	case c == '-' || isDigit(c):
		return d.number()
	}
	for _, w := range literals {
		if strings.HasPrefix(view(d.src[d.pos:]), w.text) && (!d.orjson || w.v.k != kFloat) {
			d.pos += len(w.text)
			return w.v
		}
	}
	return d.fail("unexpected character")
}

// literals are the words that Python's json reads.
var literals = []struct {
	text string
	v    value
}{
	{"true", boolValue(true)},
	{"false", boolValue(false)},
	{"null", noneValue},
	{"NaN", floatValue(math.NaN())},
	{"Infinity", floatValue(math.Inf(1))},
}

// number reads an integer or a float. 1.0 stays a float and prints as 1.0; 1e2 becomes 100.0, as in
// Python.
func (d *decoder) number() value {
	from := d.pos
	if d.src[d.pos] == '-' {
		d.pos++
	}
	if strings.HasPrefix(view(d.src[d.pos:]), "Infinity") && !d.orjson && d.pos > from {
		d.pos += len("Infinity")
		return floatValue(math.Inf(-1))
	}
	whole := d.digits()
	if whole == 0 || whole > 1 && d.src[d.pos-whole] == '0' {
		return d.fail("invalid number")
	}
	isFloat := false
	if d.pos+1 < len(d.src) && d.src[d.pos] == '.' && isDigit(d.src[d.pos+1]) {
		isFloat = true
		d.pos++
		d.digits()
	}
	if d.pos < len(d.src) && d.src[d.pos]|0x20 == 'e' {
		before := d.pos
		d.pos++
		if d.pos < len(d.src) && (d.src[d.pos] == '+' || d.src[d.pos] == '-') {
			d.pos++
		}
		if d.digits() == 0 {
			d.pos = before
			return d.fail("invalid number")
		}
		isFloat = true
	}
	text := view(d.src[from:d.pos])
	if !isFloat {
		return d.integer(text)
	}
	return d.float(text)
}

func (d *decoder) float(text string) value {
	f, _ := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) && d.orjson {
		return d.fail("number out of range")
	}
	return floatValue(f)
}

// integer makes an integer of its digits. orjson makes a float of one beyond 64 bits.
func (d *decoder) integer(text string) value {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return intValue(n)
	}
	if d.orjson {
		if _, err := strconv.ParseUint(text, 10, 64); err != nil {
			return d.float(text)
		}
	}
	if len(text) > 4000 { // Python refuses 4,300 digits
		return d.fail("integer out of range")
	}
	return value{k: kBig, s: text}
}

func (d *decoder) digits() int {
	from := d.pos
	for d.pos < len(d.src) && isDigit(d.src[d.pos]) {
		d.pos++
	}
	return d.pos - from
}

// list reads behind a [. Elements gather on a stack that all levels share, since how many there are
// is only known at the end.
func (d *decoder) list() value {
	s := d.s
	mark := len(s.parsed)
	defer func() { s.parsed = s.parsed[:mark] }()
	for first := true; !d.skip(']'); first = false {
		if !first && !d.skip(',') {
			return d.fail("expected , or ]")
		}
		v := d.value()
		if !s.charge(valueBytes) {
			return undefValue
		}
		s.parsed = append(s.parsed, v)
	}
	items := s.list(len(s.parsed) - mark)
	copy(items, s.parsed[mark:])
	return s.listValue(kList, items)
}

// dict reads behind a {, in the same way as list.
func (d *decoder) dict() value {
	s := d.s
	mark := len(s.parsed)
	defer func() { s.parsed = s.parsed[:mark] }()
	for first := true; !d.skip('}'); first = false {
		if !first && !d.skip(',') {
			return d.fail("expected , or }")
		}
		if d.space(); d.pos == len(d.src) || d.src[d.pos] != '"' {
			return d.fail("expected a key")
		}
		key := strValue(d.text())
		if !d.skip(':') {
			return d.fail("expected :")
		}
		v := d.value()
		if !s.charge(2 * valueBytes) {
			return undefValue
		}
		s.parsed = append(s.parsed, key, v)
	}
	return newDict(s, s.parsed[mark:]...)
}

// newDict makes a dict of string keys and values in turn. Of equal keys the first gives the place
// and the last the value.
func newDict(s *state, pairs ...value) value {
	n := len(pairs) / 2
	both := s.list(2 * n)
	if both == nil {
		return undefValue
	}
	o := s.object()
	o.keys, o.items = both[:0:n], both[n:n:2*n]
	if n >= indexFrom {
		o.index = make(map[string]int32, n)
	}
	for i := 0; i < len(pairs); i += 2 {
		if at := o.find(pairs[i].s); at >= 0 {
			o.items[at] = pairs[i+1]
			continue
		}
		if o.index != nil {
			o.index[pairs[i].s] = int32(len(o.keys))
		}
		o.keys, o.items = append(o.keys, pairs[i]), append(o.items, pairs[i+1])
	}
	return value{k: kDict, o: o}
}
