package disagg

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Verdict is the judgement of the beginning of an answer.
type Verdict uint8

const (
	// More bytes are needed.
	More Verdict = iota
	// Good is the beginning of an answer.
	Good
	// Failed is an error.
	Failed
)

// Failure is an error that a server reports.
type Failure struct {
	Status int // as an HTTP status; 500 where the server gives none
	// Transfer marks an error about the KV transfer between the two servers: either may be at
	// fault.
	Transfer bool
	Empty    bool // there is nothing that a client could read
}

// MaxEvent bounds the part of a stream that is held back until its first event is complete: errors
// are shorter, and a longer first event, of a prompt with log probabilities, is no error.
const MaxEvent = 16 << 10

// MaxBegin bounds the beginning of an answer that is held back in any case: of a document, until it
// has come to a member of its form, and of a stream of /v1/responses, whose first two events repeat
// the instructions and tools of the request.
const MaxBegin = 1 << 20

// JudgeStream judges the beginning of a stream of events: a server that fails after it has sent
// status 200 says so in the first event. whole says that p will not grow.
//
// SGLang 0.5.23 has four forms of errors:
//   - {"error": {…, "code": 500}} of the OpenAI routes and of refused /generate requests;
//   - an answer with finish_reason {"type": "abort", …, "status_code": 500}, of /generate requests that
//     the engine gave up;
//   - {"type": "error", "error": {"type": "api_error"}} of /v1/messages, behind a message_start;
//   - the body of a refusal, {"object": "error", …, "code": 400}.
//
// A stream of Ollama's API has documents as its lines, without anything around them.
//
// A stream without an event of the API, or with only its end, is a failure too.
func JudgeStream(api openai.API, p []byte, whole bool) (Verdict, Failure) {
	if api == openai.APIResponses {
		return judgeResponses(p, whole)
	}
	cut := len(p) >= MaxEvent
	p = bytes.TrimPrefix(p, byteOrderMark)
	for len(p) > 0 {
		line, rest, ended := CutLine(p)
		if !ended && !whole && !cut {
			return More, Failure{}
		}
		data, ok := bytes.CutPrefix(line, dataPrefix)
		if api == openai.APIOllama {
			data, ok = line, true
		}
		// A comment, an event's name, an empty line.
		if data = bytes.TrimSpace(data); !ok || len(data) == 0 || bytes.HasPrefix(data, messageStart) {
			p = rest
			continue
		}
		if string(data) == "[DONE]" {
			return Failed, NoEvent
		}
		if f, failed := failureOf(data); failed {
			return Failed, f
		}
		r := eventsOf[api].read(data, nil)
		if r.fit == fitsEmpty && ended { // it has computed nothing yet
			p = rest
			continue
		}
		return judgeEvent(&r, rest, ended, whole)
	}
	switch {
	case cut:
		return Good, Failure{}
	case whole:
		return Failed, NoEvent
	}
	return More, Failure{}
}

// CutLine cuts the first line off a stream of events, and reports whether it has ended. A line ends
// with CRLF, LF or CR.
func CutLine(p []byte) (line, rest []byte, ended bool) {
	line = p
	if before, after, found := bytes.Cut(p, []byte{'\n'}); found {
		line, rest, ended = before, after, true
	}
	if i := bytes.IndexByte(line, '\r'); i >= 0 {
		if i < len(line)-1 {
			rest = p[i+1:]
		}
		return line[:i], rest, true
	}
	return line, rest, ended
}

// judgeEvent judges an event by the first line of its data. rest follows the line if that has
// ended; else the line is whole, or too long to wait for.
func judgeEvent(r *reading, rest []byte, ended, whole bool) (Verdict, Failure) {
	switch {
	case r.first != '{', r.fit == fitsNot, r.fit == fitsEmpty:
		return Failed, NoAnswer
	case !ended && !whole, r.fit == fits && r.ends:
		return Good, Failure{}
	case !ended, r.ends:
		return Failed, NoAnswer
	case bytes.HasPrefix(rest, dataPrefix): // the data has more lines, which no engine writes
		return Good, Failure{}
	case !whole && bytes.HasPrefix(dataPrefix, rest):
		return More, Failure{}
	}
	return Failed, NoAnswer
}

// NoAnswer is the failure of a server that has answered nothing that its API's clients can read.
var NoAnswer = Failure{Status: fasthttp.StatusBadGateway}

// NoEvent is the failure of a stream that ends without an event of its API.
var NoEvent = Failure{Status: fasthttp.StatusInternalServerError, Empty: true}

// EndsInComment reports whether the beginning of a stream ends in a comment: nothing is computed
// yet, and a server on the way keeps the connection alive meanwhile.
func EndsInComment(p []byte) bool {
	lines := bytes.TrimRight(p, "\r\n")
	last := lines[bytes.LastIndexAny(lines, "\r\n")+1:]
	return len(lines) < len(p) && len(last) > 0 && last[0] == ':'
}

// JudgeJSON judges the beginning of an answer of status 200 that is one JSON document: an error is
// known by its first member, and read to its end. Proxies in front of engines send such errors.
// whole says that p will not grow.
func JudgeJSON(p []byte, whole bool) (Verdict, Failure) {
	doc := bytes.TrimSpace(p)
	// A document that does not begin like an error passes at once.
	if len(doc) == 0 || doc[0] != '{' || !beginsError(trimLeft(doc[1:])) {
		return Good, Failure{}
	}
	if f, failed := failureOf(doc); failed {
		return Failed, f
	}
	if whole || len(p) >= MaxEvent || doc[len(doc)-1] == '}' && json.Valid(doc) {
		return Good, Failure{}
	}
	return More, Failure{}
}

// JudgeAnswer is JudgeJSON for an answer of a known form; nil: any. Proxies, and servers that have
// lost their engine, send other documents with status 200, or a part of one. usage gets the tokens
// that a whole answer reports, and may be nil.
func JudgeAnswer(form *Form, p []byte, whole bool, usage *openai.UsageScanner) (Verdict, Failure) {
	if v, f := JudgeJSON(p, whole); v != Good || form == nil {
		return v, f
	}
	if !whole {
		usage = nil
	}
	r := form.read(p, usage)
	switch {
	case r.first == 0 && !whole:
		return More, Failure{}
	case r.first != '{', r.fit == fitsNot, r.fit == fitsEmpty, whole && (!r.ends || r.fit != fits):
		return Failed, NoAnswer
	case form.reason && !whole && r.fit == fits && !r.reasoned && len(p) < MaxEvent:
		return More, Failure{}
	case r.fit == fits && r.aborted:
		return Failed, r.why
	case whole, r.fit == fits, len(p) >= MaxBegin:
		return Good, Failure{}
	}
	return More, Failure{}
}

// valueOf returns the first byte of a value behind its key; 0: there is none.
func valueOf(behind []byte) byte {
	if value := bytes.TrimLeft(behind, " :"); len(value) > 0 {
		return value[0]
	}
	return 0
}

// beginsError reports whether the first member of an object may be that of an error.
func beginsError(members []byte) bool {
	for _, key := range errorKeys {
		value, ok := bytes.CutPrefix(members, key)
		if !ok {
			continue
		}
		value = bytes.TrimLeft(value, " \t\r\n:")
		return len(value) > 0 && (string(key) == `"error"` && value[0] != 'n' || bytes.HasPrefix(value, errorKeys[0]))
	}
	return false
}

// nameReason is the member of an answer that tells of its end.
const nameReason = "finish_reason"

var (
	newline   = []byte{'\n'}
	openBrace = []byte{'{'}
	// byteOrderMark may begin a stream of events, and is no part of it.
	byteOrderMark = []byte("\xef\xbb\xbf")
	dataPrefix    = []byte("data:")
	messageStart  = []byte(`{"type":"message_start"`)
	keyReason     = []byte(`"` + nameReason + `"`)
	errorKeys     = [...][]byte{[]byte(`"error"`), []byte(`"object"`), []byte(`"type"`)}
)

// failureOf reads one event's data.
func failureOf(data []byte) (f Failure, failed bool) {
	var report []byte
	end, err := openai.Members(data, 0, func(key []byte, lo, hi int) {
		switch string(key) {
		case "error":
			if data[lo] != 'n' {
				report = data[lo:hi]
			}
		case "object":
			if string(data[lo:hi]) == `"error"` && report == nil {
				report = data
			}
		}
	})
	if err != nil || end != len(data) {
		report = nil // not JSON, or cut at MaxEvent
	}
	if report != nil {
		return Failure{Status: statusOf(report), Transfer: IsTransferError(report)}, true
	}
	// Fast path: the reason is null while the answer goes on. A quote inside a text is escaped, so
	// this is the key.
	_, reason, _ := bytes.Cut(data, keyReason)
	return abortOf(reason)
}

// ReportsError reports whether the data of an event behind the beginning of a stream is an error.
// The server's own abort counts from status 500 on; others are the request's.
func ReportsError(data []byte) bool {
	if bytes.HasPrefix(data, openBrace) && beginsError(trimLeft(data[1:])) {
		return true // also where the data has more lines
	}
	f, failed := failureOf(data)
	return failed && (f.Status >= fasthttp.StatusInternalServerError || !bytes.Contains(data, keyReason))
}

// abortOf reads a reason, which begins behind its key.
func abortOf(reason []byte) (f Failure, failed bool) {
	if valueOf(reason) != '{' {
		return Failure{}, false
	}
	reason = bytes.TrimLeft(reason, " :")
	aborted, status := false, 0
	_, _ = openai.Members(reason, 0, func(key []byte, lo, hi int) {
		switch string(key) {
		case "type":
			aborted = string(reason[lo:hi]) == `"abort"`
		case "status_code":
			status = number(reason[lo:hi])
		}
	})
	// An abort without a status was asked for, and is no failure.
	if !aborted || status < fasthttp.StatusBadRequest {
		return Failure{}, false
	}
	return Failure{Status: status, Transfer: IsTransferError(reason)}, true
}

// statusOf reads the code of an error: an HTTP status as a number or a text, or the error type of
// Anthropic's API.
func statusOf(report []byte) int {
	status, typed := 0, 0
	_, _ = openai.Members(report, 0, func(key []byte, lo, hi int) {
		switch string(key) {
		case "code", "status_code":
			if n := number(bytes.Trim(report[lo:hi], `"`)); n >= fasthttp.StatusBadRequest && n < 600 {
				status = n
			}
		case "type":
			typed = anthropicStatus(report[lo:hi])
		}
	})
	return cmp.Or(status, typed, fasthttp.StatusInternalServerError)
}

// anthropicStatus is the inverse of SGLang's ERROR_TYPE_MAP; 0 for other types.
func anthropicStatus(kind []byte) int {
	switch string(kind) {
	case `"invalid_request_error"`:
		return fasthttp.StatusBadRequest
	case `"authentication_error"`:
		return fasthttp.StatusUnauthorized
	case `"permission_error"`:
		return fasthttp.StatusForbidden
	case `"not_found_error"`:
		return fasthttp.StatusNotFound
	case `"request_too_large"`:
		return fasthttp.StatusRequestEntityTooLarge
	case `"rate_limit_error"`:
		return fasthttp.StatusTooManyRequests
	case `"overloaded_error"`:
		return fasthttp.StatusServiceUnavailable
	}
	return 0
}

// number reads a number; 0 where raw is none.
func number(raw []byte) int {
	n, _ := strconv.Atoi(string(raw))
	return n
}

// transferWords occur in SGLang 0.5.23's errors about KV transfer, in lower case.
var transferWords = [...]string{
	"kvtransfer", "transfer failed", "handshake failed", "bootstrap", "kvpoll", "kvcache from prefill",
}

// IsTransferError reports whether an error of status 5xx is about the KV transfer between the two
// servers. The failed server is as often the partner of the one that reports it.
func IsTransferError(report []byte) bool {
	lower := bytes.ToLower(report)
	for _, words := range transferWords {
		if bytes.Contains(lower, []byte(words)) {
			return true
		}
	}
	return false
}
