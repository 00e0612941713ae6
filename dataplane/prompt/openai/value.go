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
func (d *document) readString(f field) string {
	raw := d.raw(f)
	if raw == nil {
		return ""
	}
	if raw[0] != '"' {
		d.refuse(f, "must be a string", 0)
		return ""
	}
	return d.stringOf(raw)
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
func (d *document) readFirstString(f field) string {
	raw := d.raw(f)
	if raw == nil || raw[0] != '[' {
		return d.readString(f)
	}
	i := skipSpace(raw, 1)
	switch raw[i] {
	case ']', 'n':
	case '"':
		end, _, _ := scanString(raw, i+1)
		return d.stringOf(raw[i:end])
	default:
		d.refuse(f, "must hold strings only", i)
	}
	return ""
}

func (d *document) readBool(f field) bool {
	raw := d.raw(f)
	v, ok := boolOf(raw)
	if !ok && raw != nil {
		d.refuse(f, "must be true or false", 0)
	}
	return v
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
func (d *document) readInt(f field) (v int, ok bool) {
	raw := d.raw(f)
	if raw == nil {
		return 0, false
	}
	if v, ok = intOf(raw); !ok {
		d.refuse(f, "must be an integer", 0)
	}
	return v, ok
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

// hasMedia reports whether a media field holds anything.
func (d *document) hasMedia(f field) bool {
	raw := d.raw(f)
	return raw != nil && (raw[0] != '[' || raw[skipSpace(raw, 1)] != ']')
}
