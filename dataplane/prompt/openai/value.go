package openai

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errAt is a 400 for a field whose value cannot be used.
func errAt(param, why string, at int) *Error {
	return BadRequest(param, param+" "+why+" (byte "+strconv.Itoa(at)+").")
}

// readString reads a string field, "" when absent.
func (r *Request) readString(f field, param string) (string, *Error) {
	raw := r.raw(f)
	if raw == nil {
		return "", nil
	}
	if raw[0] != '"' {
		return "", errAt(param, "must be a string", r.spans[f].lo)
	}
	return r.stringOf(raw), nil
}

// stringOf copies the content of a raw JSON string. The model of the body before needs no new copy: most bodies name the
// same one.
func (r *Request) stringOf(raw []byte) string {
	s := r.keyOf(raw[1:len(raw)-1], true)
	if string(s) == r.model {
		return r.model
	}
	return string(s)
}

// readFirstString reads a field that is a string, or for a batch a list of strings and nulls, of
// which the first counts.
func (r *Request) readFirstString(f field, param string) (string, *Error) {
	raw := r.raw(f)
	if raw == nil || raw[0] != '[' {
		return r.readString(f, param)
	}
	i := skipSpace(raw, 1)
	switch raw[i] {
	case ']', 'n':
		return "", nil
	case '"':
		end, _, _ := scanString(raw, i+1)
		return r.stringOf(raw[i:end]), nil
	}
	return "", errAt(param, "must hold strings only", r.spans[f].lo+i)
}

func (r *Request) readBool(f field, param string) (bool, *Error) {
	raw := r.raw(f)
	if raw == nil || raw[0] == 'f' {
		return false, nil
	}
	if raw[0] == 't' {
		return true, nil
	}
	v, ok := looseBool(raw)
	if !ok {
		return false, errAt(param, "must be true or false", r.spans[f].lo)
	}
	return v, nil
}

// looseBool reads what else the workers' Pydantic takes for true or false: the numbers 0 and 1, and words.
func looseBool(raw []byte) (v, ok bool) {
	text := strings.ToLower(string(bytes.TrimSuffix(raw, []byte(".0"))))
	if raw[0] == '"' {
		text = strings.ToLower(string(raw[1 : len(raw)-1]))
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
func (r *Request) readInt(f field, param string) (v int, ok bool, err *Error) {
	raw := r.raw(f)
	if raw == nil {
		return 0, false, nil
	}
	if v, ok = parseInt(raw); !ok {
		return 0, false, errAt(param, "must be an integer", r.spans[f].lo)
	}
	return v, true, nil
}

// readCount reads a positive number that only helps to guess a request's cost: what is no
// such number is the worker's to judge.
func (r *Request) readCount(f field, otherwise int) int {
	return countOf(r.raw(f), otherwise)
}

func countOf(raw []byte, otherwise int) int {
	if v, ok := parseInt(raw); ok && v > 0 {
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

// readRID reads rid: a string, or for a batch a list of strings.
func (r *Request) readRID() *Error {
	raw := r.raw(fieldRID)
	if raw == nil {
		return nil
	}
	if raw[0] != '[' {
		var err *Error
		if r.RID, err = r.readString(fieldRID, "rid"); err != nil {
			return err
		}
		if r.HasRID = usableRID(r.RID); !r.HasRID {
			r.RID = ""
		}
		return nil
	}
	usable := true
	for i, more := skipSpace(raw, 1), true; more && raw[i] != ']'; {
		if raw[i] != '"' {
			return errAt("rid", "must hold strings only", r.spans[fieldRID].lo+i)
		}
		end, _, _ := scanString(raw, i+1)
		r.RIDs = append(r.RIDs, r.stringOf(raw[i:end]))
		usable = usable && usableRID(r.RIDs[len(r.RIDs)-1])
		i, more, _ = nextMember(raw, end, ']')
		if more {
			i = skipSpace(raw, i)
		}
	}
	if r.HasRID = usable && len(r.RIDs) > 0; !r.HasRID {
		r.RIDs = nil
	}
	return nil
}

// usableRID reports whether a worker can be told to abort the request by this id, and by it alone. SGLang
// 0.5.23 ignores an abort of the empty id, and aborts every request whose id begins with the one named: the
// beginning of the router's own ids would end other clients' requests. An id with half a surrogate pair
// cannot be named in UTF-8; it reads as U+FFFD.
func usableRID(id string) bool {
	begins := len(id) < RIDLen && strings.HasPrefix(id, ridPrefix[:min(len(id), len(ridPrefix))])
	return id != "" && !begins && !strings.ContainsRune(id, utf8.RuneError)
}

// readRank reads the data-parallel rank that the client asks for.
func (r *Request) readRank() (err *Error) {
	r.Rank, r.HasRank, err = r.readInt(fieldRank, "routed_dp_rank")
	if err != nil || r.HasRank {
		return err
	}
	r.Rank, r.HasRank, err = r.readInt(fieldOldRank, "data_parallel_rank")
	return err
}

func (r *Request) readSession() (err *Error) {
	if r.SessionID, err = r.readString(fieldSessionID, "session_id"); err != nil || r.SessionID != "" {
		return err
	}
	if id := r.member(r.raw(fieldSessionParams), "id"); len(id) > 0 && id[0] == '"' {
		r.SessionID = r.stringOf(id)
	}
	return nil
}

func (r *Request) readStreamOptions() {
	v := r.member(r.raw(fieldStreamOptions), "include_usage")
	r.IncludeUsage = len(v) > 0 && v[0] == 't'
}

// readSamplingParams reads /generate's sampling_params: an object, or for a batch a list of them,
// of which the first counts.
func (r *Request) readSamplingParams() *Error {
	raw := r.raw(fieldSamplingParams)
	if raw == nil {
		return nil
	}
	if raw[0] == '[' {
		raw = raw[skipSpace(raw, 1):]
	}
	if raw[0] != '{' && raw[0] != ']' {
		return errAt("sampling_params", "must be an object or a list of objects", r.spans[fieldSamplingParams].lo)
	}
	r.MaxTokens = countOf(r.member(raw, "max_new_tokens"), 0)
	r.N = countOf(r.member(raw, "n"), 1)
	return nil
}

// member returns the raw value of the last member of that name in a checked object; nil when there
// is none, or no object.
func (r *Request) member(raw []byte, name string) (value []byte) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	i := skipSpace(raw, 1)
	for more := raw[i] != '}'; more; {
		key, escaped, at, _ := scanKey(raw, i)
		i, _ = skipValue(raw, at, 1)
		if string(r.keyOf(key, escaped)) == name {
			value = raw[at:i]
		}
		i, more, _ = nextMember(raw, i, '}')
	}
	return value
}

// hasMedia says that a media field holds anything.
func (r *Request) hasMedia(f field) bool {
	raw := r.raw(f)
	return raw != nil && (raw[0] != '[' || raw[skipSpace(raw, 1)] != ']')
}
