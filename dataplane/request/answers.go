package request

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// kind is what the beginning of an answer says of its worker.
type kind uint8

const (
	// answered is an answer that begins well. Its end tells the rest.
	answered kind = iota
	// busy is 429 and 503: the worker is full, starts or stops.
	busy
	// broke is an error of the worker's own, or no answer at all.
	broke
	// denied is a status below 500: the client's fault where other workers say the same.
	denied
)

// finding is the judgement of an answer's beginning.
type finding struct {
	kind     kind
	status   int  // of the error, which a status of 200 may hide
	transfer bool // it speaks of the way between the workers of a pair
}

// found makes a finding of an error's status.
func found(status int, transfer bool) finding {
	switch {
	case status == fasthttp.StatusTooManyRequests, status == fasthttp.StatusServiceUnavailable && !transfer:
		return finding{busy, status, transfer}
	case status >= fasthttp.StatusInternalServerError:
		return finding{broke, status, transfer}
	case status >= fasthttp.StatusBadRequest:
		return finding{denied, status, transfer}
	}
	return finding{}
}

// repeats reports whether the request may be sent to another worker after one has answered: it
// computes and changes nothing. /v1/responses may store its answer.
func (e *exchange) repeats(c call) bool {
	return e.inferred || string(c.method()) == fasthttp.MethodPost && string(c.path()) != pathResponses
}

var typeHTML = []byte("text/html")

// examine waits for the beginning of an answer and judges it. It holds nothing back but the first
// event of a stream, up to disagg.MaxEvent, and message_start, which SGLang sends together with the
// text behind it. An error is of the connection.
func (e *exchange) examine(c call, resp *upstream.Response) (finding, error) {
	// A streaming worker sends its header before it has computed anything.
	// Nothing is promised to the client until the first byte of the body.
	if len(resp.Begin()) == 0 {
		if err := e.await(resp); err != nil {
			return finding{}, err
		}
	}
	if resp.Status >= fasthttp.StatusBadRequest {
		return found(resp.Status, false), nil
	}
	if e.repeats(c) && (resp.Status >= fasthttp.StatusMultipleChoices || resp.Status == fasthttp.StatusNoContent) {
		return finding{kind: broke, status: resp.Status}, nil // what computes redirects nobody
	}
	if resp.Status != fasthttp.StatusOK || !e.repeats(c) || len(resp.Peek(fasthttp.HeaderContentEncoding)) > 0 {
		return finding{}, nil
	}
	mime := resp.Peek(fasthttp.HeaderContentType)
	if bytes.HasPrefix(mime, eventStream) {
		return e.look(resp, disagg.Look)
	}
	if len(resp.Begin()) == 0 || bytes.HasPrefix(mime, typeHTML) { // no engine says either: a proxy in front of it may
		return finding{kind: broke, status: fasthttp.StatusBadGateway}, nil
	}
	return e.look(resp, disagg.LookJSON)
}

// await waits for the first byte of the body for as long as a worker may take to begin, its header
// or not.
func (e *exchange) await(resp *upstream.Response) error {
	cfg := e.s.live()
	if cfg.FirstByteTimeout > 0 {
		resp.Within(max(cfg.FirstByteTimeout-time.Since(e.sent), time.Millisecond))
	} else {
		resp.Within(0)
	}
	err := resp.Await()
	resp.Within(cfg.StallTimeout)
	return err
}

// look judges the beginning of an answer by judge, which says how much of it it needs.
func (e *exchange) look(resp *upstream.Response, judge func(p []byte, whole bool) (disagg.Verdict, disagg.Failure)) (finding, error) {
	// Fast path: the first event is here as a whole.
	verdict, f := judge(resp.Begin(), false)
	if verdict == disagg.More {
		n, err := e.fill(resp, func(p []byte, whole bool) bool {
			verdict, f = judge(p, whole)
			return verdict != disagg.More
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return finding{}, err
		}
		resp.Unread(e.begin[:n])
	}
	if verdict == disagg.Failed {
		return found(f.Status, f.Transfer), nil
	}
	return finding{}, nil
}

// fill reads the beginning of an answer until enough says so, it ends, or there is no more room for
// it.
func (e *exchange) fill(resp *upstream.Response, enough func(p []byte, whole bool) bool) (n int, err error) {
	if e.begin == nil {
		e.begin = make([]byte, disagg.MaxEvent)
	}
	for {
		var m int
		m, err = resp.Read(e.begin[n:])
		n += m
		if enough(e.begin[:n], errors.Is(err, io.EOF)) || err != nil || n == len(e.begin) {
			return n, err
		}
	}
}

// Lines that say that a stream has failed behind its beginning.
var (
	lineError      = []byte(`data: {"error"`)
	lineNamedError = []byte("event: error")
	keyAborted     = []byte(`"type":"abort"`)
	abortStatus    = []byte(`"status_code":5`)
)

// spoils reports whether a piece of a stream tells of an error. A quote inside a text is escaped,
// and a line break too, so that no text is taken for one.
func (e *exchange) spoils(p []byte) bool {
	for len(p) > 0 {
		line := p
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			line, p = p[:i], p[i+1:]
		} else {
			p = nil
		}
		switch {
		case len(line) < len(lineNamedError):
		case bytes.HasPrefix(line, lineError) && !bytes.HasPrefix(line[len(lineError):], []byte(":null")):
			return true
		case bytes.HasPrefix(line, lineNamedError):
			return true
		case e.api == openai.APIGenerate:
			if _, rest, ok := bytes.Cut(line, keyAborted); ok && bytes.Contains(rest, abortStatus) {
				return true
			}
		}
	}
	return false
}
