package request

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/disagg"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

const (
	// maxReply bounds the part of a prefill worker's answer that is kept: enough for a refusal.
	maxReply = disagg.MaxEvent
	// maxLogprobs bounds an answer with log probabilities: 256 MiB are a million tokens with the
	// ten likeliest of each.
	maxLogprobs = 256 << 20
)

// prefillReply is the prefill worker's answer.
type prefillReply struct {
	status  int
	refusal int          // status of an error, which a status of 200 may hide
	body    []byte       // its beginning, or all of it
	discard []byte       // buffer for the rest
	length  atomic.Int64 // of the bytes read
	events  bool         // it is a stream
	wanted  bool         // all of it
	judged  bool         // it must have the form of its API
	api     openai.API
	kept    *upstream.Kept // an answer that may become the client's: an error
}

// read reads the answer to its end, and looks at the first event of a stream. A worker that says
// anything else has computed nothing: the decode worker would wait for it in vain.
func (r *prefillReply) read(resp *upstream.Response) error {
	limit := maxReply
	if r.wanted && r.status == fasthttp.StatusOK {
		limit = maxLogprobs
	}
	if r.judged && r.status == fasthttp.StatusOK && len(resp.Peek(fasthttp.HeaderContentEncoding)) > 0 {
		return errFailed
	}
	verdict := disagg.Good
	if r.events && r.status == fasthttp.StatusOK {
		verdict = disagg.More
	}
	for {
		buf := r.discard
		if len(r.body) < limit {
			buf = r.grow(limit)
		}
		n, err := resp.Read(buf)
		r.length.Add(int64(n))
		if len(r.body) < limit {
			r.body = r.body[:len(r.body)+n]
		}
		if verdict == disagg.More {
			var f disagg.Failure
			switch verdict, f = disagg.JudgeStream(r.api, r.body, errors.Is(err, io.EOF)); {
			case len(r.body) >= limit && verdict == disagg.More:
				verdict = disagg.Good // no more of it is kept
			case verdict == disagg.Failed:
				return r.readError(resp, f)
			}
		}
		if errors.Is(err, io.EOF) {
			if r.wanted && len(r.body) >= maxLogprobs {
				return fmt.Errorf("%w: more than %d bytes of log probabilities", errFailed, maxLogprobs)
			}
			return r.judge(resp, limit)
		}
		if err != nil {
			return err
		}
	}
}

// judge judges a whole answer.
func (r *prefillReply) judge(resp *upstream.Response, limit int) error {
	switch {
	case !r.judged || r.status >= fasthttp.StatusBadRequest:
		return nil
	case r.status != fasthttp.StatusOK:
		return errFailed
	case r.events || len(r.body) >= limit:
		return nil
	}
	verdict, f := disagg.JudgeAnswer(disagg.FormOf(r.api), r.body, true)
	switch {
	case verdict != disagg.Failed:
		return nil
	case f == disagg.NoAnswer:
		return errFailed // no other pair could confirm it
	}
	return r.readError(resp, f)
}

// grow returns memory behind the body, and allocates some.
func (r *prefillReply) grow(limit int) []byte {
	n := len(r.body)
	if cap(r.body)-n < 512 {
		grown := make([]byte, n, min(max(2*cap(r.body), maxReply), limit+512))
		copy(grown, r.body)
		r.body = grown
	}
	return r.body[n:min(cap(r.body), limit)]
}

// readError takes in an error inside an answer of status 200. An error of the client's is read to
// its end, for the client.
func (r *prefillReply) readError(resp *upstream.Response, f disagg.Failure) error {
	r.refusal = f.Status
	if err := statusError(f.Status, f.Transfer); !errors.Is(err, errClient) {
		return err
	}
	for len(r.body) < maxReply {
		n, err := resp.Read(r.grow(maxReply))
		r.body = r.body[:len(r.body)+n]
		if err != nil {
			break
		}
	}
	return errClient
}

func (r *prefillReply) reset() {
	r.status, r.refusal, r.events, r.wanted, r.judged, r.kept = 0, 0, false, false, false, nil
	r.length.Store(0)
	r.body = emptied(r.body)
}
