package sim

import (
	"errors"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/bench/proxy/wire"
)

// errJSON means that a body is not JSON.
var errJSON = errors.New("sim: not JSON")

// object is the top level of a JSON object with raw values.
type object struct {
	fields []field
}

type field struct{ key, value []byte }

// parseObject cuts body into its fields; they alias body.
func parseObject(body []byte) (o object, err error) {
	rest, ok := wire.Members(body, func(key, value []byte) { o.fields = append(o.fields, field{key, value}) })
	if !ok || len(skipSpace(rest)) > 0 {
		return object{}, errJSON
	}
	return o, nil
}

// skipSpace returns p without leading white space.
func skipSpace(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\n' || p[0] == '\t' || p[0] == '\r') {
		p = p[1:]
	}
	return p
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
