package chattemplate

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// dumper writes JSON as Python's json.dumps does, with the settings that the filter tojson of
// transformers takes.
type dumper struct {
	s         *state
	line      int
	asciiOnly bool
	indent    string
	hasIndent bool
	item, kv  string // separators
}

// toJSONFilter makes a string. Where tojson is output directly, dump writes without one.
func toJSONFilter(s *state, v value, a args) value {
	from := len(s.out)
	if !dumpJSON(s, v, a) {
		s.out = s.out[:from]
		return undefValue
	}
	text := s.cutOutput(from)
	s.charge(len(text))
	return strValue(text)
}

// dumpJSON appends v as JSON to the output.
func dumpJSON(s *state, v value, a args) bool {
	d := dumper{s: s, line: a.line, item: ", ", kv: ": "}
	if len(a.pos)+len(a.kw) > 0 && !d.settings(a) {
		return false
	}
	d.value(v, 0)
	return s.err == nil
}

func (d *dumper) settings(a args) bool {
	s := d.s
	defer s.release(len(s.stack))
	a, ok := s.bind(a, "tojson", 0, []string{"ensure_ascii", "indent", "separators", "sort_keys"})
	if !ok {
		return false
	}
	d.asciiOnly = a.pos[0].truthy()
	if a.pos[3].truthy() {
		s.unsupported("tojson with sort_keys")
		return false
	}
	switch in := a.pos[1]; {
	case !in.given():
	case in.k == kString:
		d.indent, d.hasIndent = in.s, true
	case in.isInt():
		d.indent, d.hasIndent = repeatValue(s, a.line, strValue(" "), in.n).s, true
	default:
		s.unsupported("tojson indented by " + in.typeName())
		return false
	}
	if d.hasIndent {
		d.item = ","
	}
	switch sep := a.pos[2]; {
	case !sep.given():
	case (sep.k == kTuple || sep.k == kList) && len(sep.o.items) == 2 && sep.o.items[0].k == kString && sep.o.items[1].k == kString:
		d.item, d.kv = sep.o.items[0].s, sep.o.items[1].s
	default:
		s.unsupported("tojson with malformed separators")
		return false
	}
	return s.err == nil
}

func (d *dumper) value(v value, depth int) {
	s := d.s
	if depth > maxDepth {
		s.unsupported("a value nested too deep")
		return
	}
	switch v.k {
	case kString, kMarkup:
		s.out = appendJSON(s.out, v.s, d.asciiOnly)
	case kNone:
		s.out = append(s.out, "null"...)
	case kBool, kInt, kBig, kFloat:
		s.out = append(s.out, d.scalar(v)...)
	case kList, kTuple:
		d.list(v.o.items, depth)
	case kDict:
		d.dict(v.o, depth)
	default:
		s.raise(d.line, "Object of type %s is not JSON serializable", v.typeName())
	}
}

func (d *dumper) scalar(v value) string {
	switch v.k {
	case kBool:
		if v.n != 0 {
			return "true"
		}
		return "false"
	case kInt:
		return strconv.FormatInt(v.n, 10)
	case kBig:
		return v.s
	}
	switch f := v.float(); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return toStr(d.s, v)
}

// newline begins a line where the output is indented.
func (d *dumper) newline(depth int) {
	if !d.hasIndent || !d.s.charge(depth*len(d.indent)) {
		return
	}
	d.s.out = append(d.s.out, '\n')
	for range depth {
		d.s.out = append(d.s.out, d.indent...)
	}
}

// list appends a list. An empty one stays on its line, also when indented.
func (d *dumper) list(items []value, depth int) {
	s := d.s
	s.out = append(s.out, '[')
	for i, item := range items {
		if i > 0 {
			s.out = append(s.out, d.item...)
		}
		d.newline(depth + 1)
		if d.value(item, depth+1); !s.step(1) {
			return
		}
	}
	if len(items) > 0 {
		d.newline(depth)
	}
	s.out = append(s.out, ']')
}

// dict appends an object. Keys that are numbers, bools or None become strings, and may then repeat.
func (d *dumper) dict(o *object, depth int) {
	s := d.s
	s.out = append(s.out, '{')
	for i, k := range o.keys {
		if i > 0 {
			s.out = append(s.out, d.item...)
		}
		d.newline(depth + 1)
		switch k.k {
		case kString, kMarkup:
			s.out = appendJSON(s.out, k.s, d.asciiOnly)
		case kBool, kInt, kBig, kFloat:
			s.out = append(append(append(s.out, '"'), d.scalar(k)...), '"')
		case kNone:
			s.out = append(s.out, `"null"`...)
		default:
			s.raise(d.line, "keys must be str, int, float, bool or None, not %s", k.typeName())
		}
		s.out = append(s.out, d.kv...)
		if d.value(o.items[i], depth+1); !s.step(1) {
			return
		}
	}
	if len(o.keys) > 0 {
		d.newline(depth)
	}
	s.out = append(s.out, '}')
}

// appendJSON appends a string as json.dumps does: with ensure_ascii everything beyond ASCII is
// escaped, in UTF-16.
func appendJSON(dst []byte, text string, asciiOnly bool) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' && (c < 0x7f || !asciiOnly) {
			i++
			continue
		}
		dst = append(dst, text[from:i]...)
		r, n := rune(c), 1
		if c >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
		}
		dst = escapeJSON(dst, r)
		i += n
		from = i
	}
	return append(append(dst, text[from:]...), '"')
}

func escapeJSON(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	if r > 0xffff {
		r -= 0x10000
		dst = appendHex(append(dst, '\\', 'u'), 0xd800+r>>10, 4)
		r = 0xdc00 + r&0x3ff
	}
	return appendHex(append(dst, '\\', 'u'), r, 4)
}
