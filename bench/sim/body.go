package sim

import (
	"errors"
	"slices"

	"github.com/valyala/fastjson"

	"github.com/warmpath/warmpath/bench/proxy/wire"
)

// errJSON means that a body is not JSON.
var errJSON = errors.New("sim: not JSON")

// object is the top level of a JSON object with raw values. Its readers keep the first error.
type object struct {
	fields []field
	err    error
}

type field struct{ key, value []byte }

// parseObject cuts body into its fields; they alias body.
func parseObject(body []byte) *object {
	o := &object{}
	rest, ok := wire.Members(body, func(key, value []byte) { o.fields = append(o.fields, field{key, value}) })
	if !ok || len(skipSpace(rest)) > 0 {
		return &object{err: errJSON}
	}
	return o
}

// skipSpace returns p without leading white space.
func skipSpace(p []byte) []byte {
	for len(p) > 0 && (p[0] == ' ' || p[0] == '\n' || p[0] == '\t' || p[0] == '\r') {
		p = p[1:]
	}
	return p
}

// fail keeps err, if it is the first.
func (o *object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// raw returns the value of key, nil if it is absent or null. The last one of a repeated key
// counts, as in Python.
func (o *object) raw(key string) []byte {
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
func (o *object) value(key string) *fastjson.Value {
	raw := o.raw(key)
	if raw == nil {
		return nil
	}
	v, err := fastjson.ParseBytes(raw)
	if err != nil {
		o.fail(errJSON)
		return nil
	}
	return v
}

// text is a string field, def if absent.
func (o *object) text(key, def string) string {
	v := o.value(key)
	if v == nil {
		return def
	}
	b, err := v.StringBytes()
	if err != nil {
		o.fail(invalid("string_type", key, "Input should be a valid string"))
	}
	return string(b)
}

// number is an integer field, def if absent.
func (o *object) number(key string, def int) int {
	v := o.value(key)
	if v == nil {
		return def
	}
	n, err := v.Int()
	if err != nil {
		o.fail(invalid("int_type", key, "Input should be a valid integer"))
	}
	return n
}

// flag is a boolean field, false if absent.
func (o *object) flag(key string) bool {
	raw := string(o.raw(key))
	if raw != "true" && raw != "false" && raw != "" {
		o.fail(invalid("bool_type", key, "Input should be a valid boolean"))
	}
	return raw == "true"
}

// texts is a field that is a string or a list of strings.
func (o *object) texts(key string) (all []string) {
	v := o.value(key)
	if v == nil {
		return nil
	}
	list, err := v.Array()
	if err != nil {
		list = []*fastjson.Value{v}
	}
	for _, v := range list {
		b, err := v.StringBytes()
		if err != nil {
			o.fail(invalid("string_type", key, "Input should be a valid string"))
		}
		all = append(all, string(b))
	}
	return all
}

// prompts is a field that is a text or a list of texts, in tokens.
func (o *object) prompts(key string) (all [][]uint32) {
	for _, t := range o.texts(key) {
		all = append(all, encode([]byte(t)))
	}
	return all
}

// ids is a field that is a list of token ids.
func (o *object) ids(key string) []uint32 {
	raw := o.raw(key)
	if raw[0] != '[' {
		o.fail(invalid("list_type", key, "Input should be a valid list"))
		return nil
	}
	ids, _, err := parseIDs(raw, key)
	o.fail(err)
	return ids
}

// idLists is a field that is a list of token ids, or a list of such lists.
func (o *object) idLists(key string) (lists [][]uint32, nested bool) {
	lists, nested, err := idLists(o.raw(key), key)
	o.fail(err)
	return lists, nested
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
