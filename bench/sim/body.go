package sim

import (
	"bytes"
	"errors"
	"slices"

	"github.com/valyala/fastjson"
)

// errJSON means that a body is not JSON.
var errJSON = errors.New("sim: not JSON")

// object is the top level of a JSON object with raw values. A prompt of 12,000 token ids is 70
// KB of digits: a document tree of it would take a megabyte, parsing only the ids takes 50 µs.
type object struct {
	fields []field
}

type field struct{ key, value []byte }

// parseObject cuts body into its fields; they alias body.
func parseObject(body []byte) (o object, err error) {
	p := bytes.TrimSpace(body)
	if len(p) < 2 || p[0] != '{' {
		return o, errJSON
	}
	p = skipSpace(p[1:])
	for first := true; ; first = false {
		if len(p) > 0 && p[0] == '}' {
			return o, atEnd(p[1:])
		}
		if !first {
			if len(p) == 0 || p[0] != ',' {
				return o, errJSON
			}
			p = skipSpace(p[1:])
		}
		var f field
		if f, p, err = parseField(p); err != nil {
			return o, err
		}
		o.fields = append(o.fields, f)
	}
}

// parseField cuts one "key": value off p.
func parseField(p []byte) (f field, rest []byte, err error) {
	n := stringLen(p)
	if n < 2 {
		return f, nil, errJSON
	}
	f.key, p = p[1:n-1], skipSpace(p[n:])
	if len(p) == 0 || p[0] != ':' {
		return f, nil, errJSON
	}
	p = skipSpace(p[1:])
	if n = valueLen(p); n == 0 {
		return f, nil, errJSON
	}
	f.value = bytes.TrimRight(p[:n], " \t\r\n")
	return f, p[n:], nil
}

func atEnd(p []byte) error {
	if len(skipSpace(p)) > 0 {
		return errJSON
	}
	return nil
}

// skipSpace returns p without leading white space.
func skipSpace(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\n' || p[0] == '\t' || p[0] == '\r') {
		p = p[1:]
	}
	return p
}

// stringLen returns the length of the JSON string at the start of p with its quotes, 0 if there
// is none.
func stringLen(p []byte) int {
	if len(p) == 0 || p[0] != '"' {
		return 0
	}
	for i := 1; i < len(p); i++ {
		switch p[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// valueLen returns the length of the value at the start of p, up to the comma or bracket after
// it; 0 if it does not end.
func valueLen(p []byte) int {
	depth := 0
	for i := flatLen(p); i < len(p); i++ {
		switch p[i] {
		case '"':
			n := stringLen(p[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return 0
}

// flatLen returns the length of the list at the start of p if it contains only numbers. Three
// searches at memory speed replace a look at each digit.
func flatLen(p []byte) int {
	if len(p) == 0 || p[0] != '[' {
		return 0
	}
	end := bytes.IndexByte(p, ']')
	if end < 0 || bytes.IndexByte(p[1:end], '[') >= 0 || bytes.IndexByte(p[:end], '"') >= 0 || bytes.IndexByte(p[:end], '{') >= 0 {
		return 0
	}
	return end + 1
}

// raw returns the value of key, nil if it is absent or null. The last one of a repeated key
// counts, as in Python.
func (o object) raw(key string) []byte {
	for _, f := range slices.Backward(o.fields) {
		if string(f.key) == key {
			if string(f.value) == "null" {
				return nil
			}
			return f.value
		}
	}
	return nil
}

// value parses the value of key; nil if it is absent or null.
func (o object) value(key string) (*fastjson.Value, error) {
	raw := o.raw(key)
	if raw == nil {
		return nil, nil
	}
	v, err := fastjson.ParseBytes(raw)
	if err != nil {
		return nil, errJSON
	}
	return v, nil
}

// text is a string field, def if absent.
func (o object) text(key, def string) (string, error) {
	v, err := o.value(key)
	if v == nil {
		return def, err
	}
	b, err := v.StringBytes()
	if err != nil {
		return "", invalid("string_type", key, "Input should be a valid string")
	}
	return string(b), nil
}

// number is an integer field, def if absent.
func (o object) number(key string, def int) (int, error) {
	v, err := o.value(key)
	if v == nil {
		return def, err
	}
	n, err := v.Int()
	if err != nil {
		return 0, invalid("int_type", key, "Input should be a valid integer")
	}
	return n, nil
}

// flag is a boolean field, false if absent.
func (o object) flag(key string) (bool, error) {
	switch raw := o.raw(key); string(raw) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, invalid("bool_type", key, "Input should be a valid boolean")
}

// texts is a field that is a string or a list of strings.
func (o object) texts(key string) ([]string, error) {
	v, err := o.value(key)
	if v == nil {
		return nil, err
	}
	if b, err := v.StringBytes(); err == nil {
		return []string{string(b)}, nil
	}
	list, err := v.Array()
	if err != nil {
		return nil, invalid("string_type", key, "Input should be a valid string")
	}
	out := make([]string, 0, len(list))
	for _, v := range list {
		b, err := v.StringBytes()
		if err != nil {
			return nil, invalid("string_type", key, "Input should be a valid string")
		}
		out = append(out, string(b))
	}
	return out, nil
}

// idLists reads a list of token ids, or a list of such lists.
func idLists(raw []byte, key string) (lists [][]uint32, nested bool, err error) {
	p := skipSpace(raw[1:])
	if len(p) == 0 || p[0] != '[' {
		ids, _, err := parseIDs(raw, key)
		return [][]uint32{ids}, false, err
	}
	for {
		var ids []uint32
		if ids, p, err = parseIDs(p, key); err != nil {
			return nil, true, err
		}
		lists = append(lists, ids)
		p = skipSpace(p)
		if len(p) == 0 || p[0] != ',' {
			return lists, true, nil
		}
		p = skipSpace(p[1:])
		if len(p) == 0 || p[0] != '[' {
			return nil, true, invalid("list_type", key, "Input should be a valid list")
		}
	}
}

// parseIDs reads "[1,2,3]" and returns the bytes after it.
func parseIDs(p []byte, key string) (ids []uint32, rest []byte, err error) {
	ids = make([]uint32, 0, len(p)/6+1) // An id and its comma mostly have 6 bytes.
	p = skipSpace(p[1:])
	for first := true; ; first = false {
		if len(p) > 0 && p[0] == ']' {
			return ids, p[1:], nil
		}
		if !first {
			if len(p) == 0 || p[0] != ',' {
				return nil, nil, invalid("int_type", key, "Input should be a valid integer")
			}
			p = skipSpace(p[1:])
		}
		n, v := 0, uint64(0)
		for n < len(p) && p[n] >= '0' && p[n] <= '9' && v < vocabularySize {
			v = v*10 + uint64(p[n]-'0')
			n++
		}
		if n == 0 || v >= vocabularySize {
			return nil, nil, invalid("int_type", key, "Input should be a valid token id")
		}
		ids = append(ids, uint32(v))
		p = skipSpace(p[n:])
	}
}

// float is a number field, 0 if absent.
func (o object) float(key string) (float64, error) {
	v, err := o.value(key)
	if v == nil {
		return 0, err
	}
	f, err := v.Float64()
	if err != nil {
		return 0, invalid("float_type", key, "Input should be a valid number")
	}
	return f, nil
}
