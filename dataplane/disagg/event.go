package disagg

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/openai"
)

// Verdict is what the beginning of a stream of events tells.
type Verdict uint8

const (
	// More bytes are needed to tell.
	More Verdict = iota
	// Fine is a first event that begins an answer.
	Fine
	// Failed is a first event that is an error.
	Failed
)

// Failure is an error that a server reports.
type Failure struct {
	Status int // as an HTTP status; 500 where it does not say
	// Transfer says that it is of the way between the two servers: either may be at fault.
	Transfer bool
}

// MaxEvent is how much of a stream is worth waiting for to see its first event whole: errors are short, and the first event
// of a long prompt with log probabilities is no error.
const MaxEvent = 16 << 10

// Look reads the beginning of a stream of events: servers that fail once they have sent status 200 say so in the first
// event. whole says that p will not grow.
//
// There are two kinds: {"error": {…, "code": 500}} of the OpenAI routes and of refused /generate requests, and, of /generate
// requests that the engine gave up, an answer whose finish_reason is {"type": "abort", …, "status_code": 500}.
func Look(p []byte, whole bool) (Verdict, Failure) {
	whole = whole || len(p) >= MaxEvent
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, newline)
		if !ended && !whole {
			return More, Failure{}
		}
		data, ok := bytes.CutPrefix(line, dataPrefix)
		if !ok { // a comment, a name, an empty line
			p = rest
			continue
		}
		if f, failed := failureOf(bytes.TrimSpace(data)); failed {
			return Failed, f
		}
		return Fine, Failure{}
	}
	if whole {
		return Fine, Failure{}
	}
	return More, Failure{}
}

var (
	newline    = []byte{'\n'}
	dataPrefix = []byte("data:")
	keyReason  = []byte(`"finish_reason"`)
)

// failureOf reads one event's data.
func failureOf(data []byte) (f Failure, failed bool) {
	var report []byte
	end, err := openai.Members(data, 0, func(key []byte, lo, hi int) {
		if string(key) == "error" && data[lo] != 'n' {
			report = data[lo:hi]
		}
	})
	if err != nil || end != len(data) {
		report = nil // an event that is no JSON, or cut at MaxEvent
	}
	if report != nil {
		return Failure{Status: statusOf(report), Transfer: SpeaksOfTransfer(report)}, true
	}
	// Fast path: of an answer that goes on, the reason is null. A quote inside a text is escaped, so this is the key.
	_, reason, _ := bytes.Cut(data, keyReason)
	reason = bytes.TrimLeft(reason, " :")
	if len(reason) == 0 || reason[0] != '{' {
		return Failure{}, false
	}
	aborted, status := false, 0
	_, _ = openai.Members(reason, 0, func(key []byte, lo, hi int) {
		switch string(key) {
		case "type":
			aborted = string(reason[lo:hi]) == `"abort"`
		case "status_code":
			status = number(reason[lo:hi])
		}
	})
	// Without a status somebody asked for the abort, which is no failure.
	if !aborted || status < fasthttp.StatusBadRequest {
		return Failure{}, false
	}
	return Failure{Status: status, Transfer: SpeaksOfTransfer(reason)}, true
}

// statusOf reads the code of an error, which is an HTTP status or its words.
func statusOf(report []byte) int {
	status := fasthttp.StatusInternalServerError
	_, _ = openai.Members(report, 0, func(key []byte, lo, hi int) {
		if string(key) != "code" && string(key) != "status_code" {
			return
		}
		if n := number(bytes.Trim(report[lo:hi], `"`)); n >= fasthttp.StatusBadRequest && n < 600 {
			status = n
		}
	})
	return status
}

// number is 0 for what is none.
func number(raw []byte) int {
	n, _ := strconv.Atoi(string(raw))
	return n
}

// transferWords are how SGLang 0.5.23 speaks of the way between its servers, in lower case.
var transferWords = [...]string{"kvtransfer", "transfer failed", "handshake failed", "bootstrap", "kvpoll", "kvcache from prefill"}

// SpeaksOfTransfer reports whether an error of status 5xx is of the way between the two servers. The one that reports it is
// as often the one whose partner has failed.
func SpeaksOfTransfer(report []byte) bool {
	lower := bytes.ToLower(report)
	for _, words := range transferWords {
		if bytes.Contains(lower, []byte(words)) {
			return true
		}
	}
	return false
}
