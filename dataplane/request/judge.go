package request

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// answerKind is the judgement of an answer by its beginning.
type answerKind uint8

const (
	// answerGood begins well; its end tells the rest.
	answerGood answerKind = iota
	// answerBusy is 429 or 503: the worker is full, starts or stops.
	answerBusy
	// answerBroken is an error of the worker's own, or no answer at all.
	answerBroken
	// answerRefused is a status below 500: the client's fault where other workers give it too.
	answerRefused
)

// finding is the judgement of an answer.
type finding struct {
	kind     answerKind
	status   int  // of the error, which a status of 200 may hide
	transfer bool // the error is about the KV transfer between the workers of a pair
}

// findingOf judges the status of an error.
func findingOf(status int, transfer bool) finding {
	switch {
	case status == fasthttp.StatusTooManyRequests,
		status == fasthttp.StatusServiceUnavailable && !transfer:
		return finding{answerBusy, status, transfer}
	case status >= fasthttp.StatusInternalServerError:
		return finding{answerBroken, status, transfer}
	case status >= fasthttp.StatusBadRequest:
		return finding{answerRefused, status, transfer}
	}
	return finding{}
}

// maxErrorAnswer bounds the error answer that is kept while another worker is asked.
const maxErrorAnswer = disagg.MaxEvent

var (
	eventStream = []byte("text/event-stream")
	typeHTML    = []byte("text/html")
)

// judge reads the beginnings of answers.
type judge struct {
	buf  []byte // of a beginning that did not come in one piece
	open bool   // a comment has passed before the first event
}

// examine waits for the beginning of an answer and judges it. It holds back no more than the first
// event of a stream, up to disagg.MaxEvent, and message_start, which SGLang sends together with the
// text behind it, and of these nothing behind which a comment comes; and of a document all
// before a member of its API. An error is the connection's.
func (j *judge) examine(x *exchange, resp *upstream.Response) (finding, error) {
	// A streaming worker sends its header before it has computed anything. The client is promised
	// nothing until the first byte of the body.
	if len(resp.Begin()) == 0 {
		if err := j.awaitFirstByte(x, resp); err != nil {
			return finding{}, err
		}
	}
	if resp.Status >= fasthttp.StatusBadRequest {
		return findingOf(resp.Status, false), nil
	}
	mime := resp.Peek(fasthttp.HeaderContentType)
	events := bytes.HasPrefix(mime, eventStream)
	switch {
	case !x.repeatable():
		return finding{}, nil
	case resp.Status != fasthttp.StatusOK, events != (x.inference && x.req.Stream),
		len(resp.Peek(fasthttp.HeaderContentEncoding)) > 0:
		// Nothing that was asked for. An engine never redirects, and the request refuses codings.
		return finding{kind: answerBroken, status: fasthttp.StatusBadGateway}, nil
	}
	if events {
		return j.look(resp, false, func(p []byte, whole bool) (disagg.Verdict, disagg.Failure) {
			verdict, f := disagg.JudgeStream(x.api, p, whole)
			// A comment passes at once: it keeps alive proxies in front of the router, too.
			if j.open = verdict == disagg.More && disagg.EndsInComment(p); j.open {
				verdict = disagg.Good
			}
			return verdict, f
		})
	}
	// Not an engine's, but of a proxy in front of it.
	if len(resp.Begin()) == 0 || bytes.HasPrefix(mime, typeHTML) {
		return finding{kind: answerBroken, status: fasthttp.StatusBadGateway}, nil
	}
	form := disagg.FormAt(x.call.path())
	if x.inference {
		form = disagg.FormOf(x.api)
	}
	return j.look(resp, resp.Whole(), func(p []byte, whole bool) (disagg.Verdict, disagg.Failure) {
		return disagg.JudgeAnswer(form, p, whole)
	})
}

// awaitFirstByte waits for the first byte of the body for as long as a worker may take to begin,
// the time until its header included.
func (*judge) awaitFirstByte(x *exchange, resp *upstream.Response) error {
	cfg := x.h.live()
	if cfg.FirstByteTimeout > 0 {
		resp.Within(max(cfg.FirstByteTimeout-time.Since(x.attempt.sent), time.Millisecond))
	} else {
		resp.Within(0)
	}
	err := resp.Await()
	resp.Within(cfg.StallTimeout)
	return err
}

// verdictFunc judges a beginning; whole says that it will not grow.
type verdictFunc func(p []byte, whole bool) (disagg.Verdict, disagg.Failure)

// look judges the beginning of an answer by verdictOf, which returns disagg.More where it needs
// more than it has. whole says that all of the answer has come.
func (j *judge) look(resp *upstream.Response, whole bool, verdictOf verdictFunc) (finding, error) {
	// Fast path: the first event came in one piece.
	verdict, f := verdictOf(resp.Begin(), whole)
	if verdict == disagg.More {
		n, err := j.fill(resp, disagg.MaxBegin, func(p []byte, whole bool) bool {
			verdict, f = verdictOf(p, whole)
			return verdict != disagg.More
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return finding{}, err
		}
		resp.Unread(j.buf[:n])
	}
	if verdict == disagg.Failed {
		return findingOf(f.Status, f.Transfer), nil
	}
	return finding{}, nil
}

// examineError judges an answer of status 500 or above by its text.
func (j *judge) examineError(resp *upstream.Response) (finding, error) {
	n, err := j.fill(resp, disagg.MaxEvent, func([]byte, bool) bool { return false })
	if err != nil && !errors.Is(err, io.EOF) {
		return finding{}, err
	}
	resp.Unread(j.buf[:n])
	return findingOf(resp.Status, disagg.IsTransferError(j.buf[:n])), nil
}

// fill reads the beginning of an answer until enough reports true, the answer ends, or limit bytes
// are read.
func (j *judge) fill(resp *upstream.Response, limit int, enough func(p []byte, whole bool) bool) (n int, err error) {
	if j.buf == nil {
		j.buf = make([]byte, disagg.MaxEvent)
	}
	for {
		if n == len(j.buf) {
			j.buf = append(make([]byte, 0, 2*n), j.buf...)
			j.buf = j.buf[:2*n]
		}
		var m int
		m, err = resp.Read(j.buf[n:min(len(j.buf), limit)])
		n += m
		if enough(j.buf[:n], errors.Is(err, io.EOF)) || err != nil || n == limit {
			return n, err
		}
	}
}

// maxPooledBegin bounds the buffer that a pooled exchange keeps.
const maxPooledBegin = 64 << 10

func (j *judge) reset() {
	j.open = false
	if len(j.buf) > maxPooledBegin {
		j.buf = nil
	}
}
