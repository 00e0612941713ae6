package responses

import (
	"bytes"
	"strconv"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// Answer is a response object as an engine sends it at the end.
type Answer struct {
	ID     string
	Status string // completed, incomplete, failed, cancelled; queued in the background
	Usage  openai.Usage
	Output []byte // raw JSON of the list of output items; aliases the scanner's memory
}

// Finished reports whether the output is whole.
func (a *Answer) Finished() bool {
	return a.Status == "completed" || a.Status == "incomplete" || a.Status == "failed"
}

// maxAnswer bounds the response object that is kept: an answer of 262,144 tokens is about 1 MiB,
// and the object repeats the instructions and tools of the request.
const maxAnswer = 4 << 20

// AnswerScanner finds the response object in an answer while its bytes pass by, however they are
// cut: all of a JSON answer, or the last event of a stream. Usage is not searched for in the bytes,
// as it is for other APIs: the object repeats metadata and tools of the client, which may hold
// anything.
//
// The zero value scans a JSON answer; Reset prepares it for the next one and keeps its memory.
type AnswerScanner struct {
	events bool
	count  int // of events
	state  scanState
	line   []byte // beginning of the line, as far as it decides
	object []byte
}

// scanState is the place in a stream.
type scanState uint8

const (
	inName scanState = iota // at the beginning of a line that may name the last event
	inLine                  // in a line without interest
	atData                  // at the beginning of the last event's data
	inData                  // in it
	passed                  // behind it
)

// Reset prepares for the next answer; events: it is a stream.
func (s *AnswerScanner) Reset(events bool) {
	*s = AnswerScanner{events: events, line: s.line[:0], object: emptied(s.object)}
}

// Write reads the next bytes of the answer. It keeps none of p and never fails.
func (s *AnswerScanner) Write(p []byte) (int, error) {
	n := len(p)
	if !s.events {
		s.keep(p)
		return n, nil
	}
	for len(p) > 0 && s.state != passed {
		part, rest, ended := bytes.Cut(p, newline)
		s.scan(part, ended)
		p = rest
	}
	return n, nil
}

var (
	newline    = []byte{'\n'}
	fieldEvent = []byte("event:")
	fieldData  = []byte("data:")
)

// longestName is longer than the line that names the last event.
const longestName = len("event: response.incomplete\r")

// scan reads a part of a line, up to its end if ended is set.
func (s *AnswerScanner) scan(part []byte, ended bool) {
	switch s.state {
	case inData:
		s.keep(part)
		if ended {
			s.state = passed
		}
		return
	case inName:
		s.line = append(s.line, part[:min(len(part), longestName+1-len(s.line))]...)
	case atData:
		n := min(len(part), len(fieldData)-len(s.line))
		if s.line = append(s.line, part[:n]...); len(s.line) == len(fieldData) {
			s.state = inLine
			if bytes.Equal(s.line, fieldData) {
				s.state = inData
				s.keep(part[n:])
			}
		}
	case inLine, passed:
	}
	if !ended {
		return
	}
	if bytes.HasPrefix(s.line, fieldEvent) {
		s.count++
	}
	switch {
	case s.state == inData:
		s.state = passed
	case s.state == inName && endsResponse(s.line):
		s.state = atData
	default:
		s.state = inName
	}
	s.line = s.line[:0]
}

// endsResponse reports whether a line names the last event of a stream.
func endsResponse(line []byte) bool {
	name, ok := bytes.CutPrefix(line, fieldEvent)
	if !ok {
		return false
	}
	switch string(bytes.TrimSpace(name)) {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled":
		return true
	}
	return false
}

func (s *AnswerScanner) keep(p []byte) {
	if len(s.object) <= maxAnswer {
		s.object = append(s.object, p[:min(len(p), maxAnswer+1-len(s.object))]...)
	}
}

// Events returns the number of events so far, which is the next one's sequence number.
func (s *AnswerScanner) Events() int { return s.count }

// Ended reports whether a stream has named its last event.
func (s *AnswerScanner) Ended() bool { return s.state >= atData }

// Answer reads the object. ok is false for one that is cut, too long, or no response. Call it when
// the answer has ended; the result is valid until the next Reset.
func (s *AnswerScanner) Answer() (a Answer, ok bool) {
	if len(s.object) > maxAnswer || s.events && s.state != passed {
		return a, false
	}
	object := s.object
	if s.events {
		if object = last(object, "response"); object == nil {
			return a, false
		}
	}
	isResponse, usage := false, []byte(nil)
	_, err := openai.Members(object, 0, func(key []byte, lo, hi int) {
		raw := openai.Present(object[lo:hi])
		switch string(key) {
		case "id":
			a.ID = plain(raw)
		case "object":
			isResponse = openai.Is(raw, "response")
		case "status":
			a.Status = plain(raw)
		case "output":
			a.Output = raw
		case "usage":
			usage = raw
		}
	})
	if err != nil || !isResponse {
		return Answer{}, false
	}
	a.Usage = readUsage(usage)
	return a, true
}

// last is member behind white space.
func last(raw []byte, name string) []byte { return openai.Member(bytes.TrimSpace(raw), name) }

// plain returns a string without escapes, "" for any other value.
func plain(raw []byte) string {
	if !openai.IsString(raw) || bytes.IndexByte(raw, '\\') >= 0 {
		return ""
	}
	return string(openai.Inside(raw))
}

func readUsage(raw []byte) (u openai.Usage) {
	u.PromptTokens, u.HasPrompt = count(openai.Member(raw, "input_tokens"))
	u.CachedTokens, u.HasCached = count(openai.Member(openai.Member(raw, "input_tokens_details"), "cached_tokens"))
	u.CompletionTokens, _ = count(openai.Member(raw, "output_tokens"))
	return u
}

func count(raw []byte) (n int, ok bool) {
	if len(raw) == 0 || len(raw) > 12 {
		return 0, false
	}
	n, err := strconv.Atoi(string(raw))
	return n, err == nil && n >= 0
}
