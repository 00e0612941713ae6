package replay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/valyala/fastjson"
)

// ErrAnswer is an answer that no server of its API sends: an error inside a stream, or a stream
// without an end.
var ErrAnswer = errors.New("replay: bad answer")

// events takes the bytes of an SSE answer as they come. It keeps the last event and the time of
// the first with content.
type events struct {
	api   API
	first time.Time       // of the first event that carries content
	at    time.Time       // of the latest
	gaps  []time.Duration // between them
	count int
	last  []byte // the last event's data, [DONE] excluded
	part  []byte // a line that has not ended yet
	done  bool
	start usage // of message_start
}

var (
	dataPrefix = []byte("data:")
	doneMark   = []byte("[DONE]")
	errorMark  = []byte(`{"error"`)
	deltaMark  = []byte(`{"type":"content_block_delta"`)
	startMark  = []byte(`{"type":"message_start"`)
	usageMark  = []byte(`{"type":"message_delta"`)
	stopMark   = []byte(`{"type":"message_stop"`)
	failMark   = []byte(`{"type":"error"`)
)

// write takes the next bytes, which came at now.
func (e *events) write(p []byte, now time.Time) {
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			e.part = append(e.part, p...)
			return
		}
		if len(e.part) == 0 {
			e.take(p[:end], now) // Fast path: the whole line is in one read.
		} else {
			e.part = append(e.part, p[:end]...)
			e.take(e.part, now)
			e.part = e.part[:0]
		}
		p = p[end+1:]
	}
}

func (e *events) take(line []byte, now time.Time) {
	data, found := bytes.CutPrefix(line, dataPrefix)
	if !found {
		return // An empty line between events, a comment or another field.
	}
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, doneMark) {
		e.done = true
		return
	}
	e.count++
	switch content := e.api.hasContent(data); {
	case content && e.first.IsZero():
		e.first, e.at = now, now
	case content:
		e.gaps, e.at = append(e.gaps, now.Sub(e.at)), now
	}
	if e.api == APIMessages && e.takeMessage(data) {
		return
	}
	e.last = append(e.last[:0], data...)
}

// takeMessage takes an event of /v1/messages; false: it has the answer's usage or an error, and is
// kept as the last one.
func (e *events) takeMessage(data []byte) (taken bool) {
	switch {
	case bytes.HasPrefix(data, startMark):
		if v, err := fastjson.ParseBytes(data); err == nil {
			cached := v.GetInt("message", "usage", "cache_read_input_tokens")
			e.start = usage{prompt: v.GetInt("message", "usage", "input_tokens") + cached, cached: cached}
		}
	case bytes.HasPrefix(data, stopMark):
		e.done = true
	case bytes.HasPrefix(data, failMark) || bytes.HasPrefix(data, usageMark) && !bytes.HasPrefix(e.last, failMark):
		return false
	}
	return true
}

// hasContent reports whether an event carries a token. Chat's first event names the role only.
// The other APIs send no event before the first token; its text may be empty because it ends
// within a UTF-8 sequence.
func (a API) hasContent(data []byte) bool {
	if bytes.HasPrefix(data, errorMark) {
		return false
	}
	switch a {
	case APIChat:
	case APIMessages:
		return bytes.HasPrefix(data, deltaMark)
	default:
		return true
	}
	_, content, found := bytes.Cut(data, []byte(`"content":"`))
	return found && len(content) > 0 && content[0] != '"'
}

// usage is the token counts of an answer.
type usage struct {
	prompt, cached, completion int
}

// usage reads the last event, after the stream's end.
func (e *events) usage(parser *fastjson.Parser) (usage, error) {
	if bytes.HasPrefix(e.last, errorMark) || bytes.HasPrefix(e.last, failMark) {
		return usage{}, fmt.Errorf("%w: %s", ErrAnswer, e.last)
	}
	if !e.done {
		return usage{}, fmt.Errorf("%w: the stream has no end: %w", ErrAnswer, io.ErrUnexpectedEOF)
	}
	v, err := parser.ParseBytes(e.last)
	if err != nil {
		return usage{}, fmt.Errorf("%w: %w: %s", ErrAnswer, err, e.last)
	}
	if e.api == APIMessages {
		u := e.start
		u.completion = v.GetInt("usage", "output_tokens")
		return u, nil
	}
	if e.api == APIGenerate {
		v = v.Get("meta_info")
		return usage{v.GetInt("prompt_tokens"), v.GetInt("cached_tokens"), v.GetInt("completion_tokens")}, nil
	}
	v = v.Get("usage")
	return usage{
		v.GetInt("prompt_tokens"), v.GetInt("prompt_tokens_details", "cached_tokens"), v.GetInt("completion_tokens"),
	}, nil
}
