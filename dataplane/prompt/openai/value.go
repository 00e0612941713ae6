package openai

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// errAt is a 400 for a field with an unusable value.
func errAt(param, why string, at int) *Error {
	return BadRequest(param, param+" "+why+" (byte "+strconv.Itoa(at)+").")
}

// readString reads a string field, "" when absent.
func (d *document) readString(f field, param string) (string, *Error) {
	raw := d.raw(f)
	if raw == nil {
		return "", nil
	}
	if raw[0] != '"' {
		return "", errAt(param, "must be a string", d.spans[f].lo)
	}
	return d.stringOf(raw), nil
}

// stringOf copies the content of a raw JSON string. The model of the body before needs no new copy:
// most bodies name the same one.
func (d *document) stringOf(raw []byte) string {
	s := d.keyOf(raw[1:len(raw)-1], true)
	if string(s) == d.model {
		return d.model
	}
	return string(s)
}

// readFirstString reads a field that is a string, or for a batch a list of strings and nulls, of
// which the first counts.
func (d *document) readFirstString(f field, param string) (string, *Error) {
	raw := d.raw(f)
	if raw == nil || raw[0] != '[' {
		return d.readString(f, param)
	}
	i := skipSpace(raw, 1)
	switch raw[i] {
	case ']', 'n':
		return "", nil
	case '"':
		end, _, _ := scanString(raw, i+1)
		return d.stringOf(raw[i:end]), nil
	}
	return "", errAt(param, "must hold strings only", d.spans[f].lo+i)
}

func (d *document) readBool(f field, param string) (bool, *Error) {
	raw := d.raw(f)
	if raw == nil {
		return false, nil
	}
	v, ok := boolOf(raw)
	if !ok {
		return false, errAt(param, "must be true or false", d.spans[f].lo)
	}
	return v, nil
}

// boolOf reads true and false, and the other spellings that the workers' Pydantic takes for them:
// the numbers 0 and 1, and words.
func boolOf(raw []byte) (v, ok bool) {
	if len(raw) == 0 {
		return false, false
	}
	switch raw[0] {
	case 't':
		return true, true
	case 'f':
		return false, true
	}
	text := strings.ToLower(string(bytes.TrimSuffix(raw, []byte(".0"))))
	if raw[0] == '"' {
		text = strings.ToLower(string(Unescape(raw[1 : len(raw)-1])))
	}
	switch text {
	case "1", "true", "t", "yes", "y", "on":
		return true, true
	case "0", "false", "f", "no", "n", "off":
		return false, true
	}
	return false, false
}

// readInt reads an integer field that routing depends on.
func (d *document) readInt(f field, param string) (v int, ok bool, err *Error) {
	raw := d.raw(f)
	if raw == nil {
		return 0, false, nil
	}
	if v, ok = intOf(raw); !ok {
		return 0, false, errAt(param, "must be an integer", d.spans[f].lo)
	}
	return v, true, nil
}

// intOf reads an integer as the workers' Pydantic does: also a whole float, an integer in a string,
// and true for 1.
func intOf(raw []byte) (v int, ok bool) {
	if v, ok = parseInt(raw); ok || len(raw) == 0 {
		return v, ok
	}
	switch raw[0] {
	case 't':
		return 1, true
	case 'f':
		return 0, true
	}
	n, ok := number(raw)
	if !ok || n != math.Trunc(n) || math.Abs(n) > math.MaxInt32 {
		return 0, false
	}
	return int(n), true
}

// readCount reads a positive number, in any spelling that workers take; they judge other values.
func (d *document) readCount(f field, otherwise int) int {
	return countOf(d.raw(f), otherwise)
}

func countOf(raw []byte, otherwise int) int {
	if v, ok := intOf(raw); ok && v > 0 {
		return v
	}
	return otherwise
}

// parseInt reads a raw JSON integer of at most 18 digits.
func parseInt(raw []byte) (v int, ok bool) {
	digits := bytes.TrimPrefix(raw, []byte{'-'})
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	for _, c := range digits {
		if !isDigit(c) {
			return 0, false
		}
		v = v*10 + int(c-'0')
	}
	if len(digits) < len(raw) {
		v = -v
	}
	return v, true
}

// member returns the raw value of the last member of that name in a checked object; nil when there
// is none, or no object.
func (d *document) member(raw []byte, name string) (value []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	i := skipSpace(raw, 1)
	for more := raw[i] != '}'; more; {
		key, escaped, at, _ := scanKey(raw, i)
		i, _ = skipValue(raw, at, 1)
		if string(d.keyOf(key, escaped)) == name {
			value = raw[at:i]
		}
		i, more, _ = nextMember(raw, i, '}')
	}
	return value
}

// hasMedia reports whether a media field holds anything.
func (d *document) hasMedia(f field) bool {
	raw := d.raw(f)
	return raw != nil && (raw[0] != '[' || raw[skipSpace(raw, 1)] != ']')
}
