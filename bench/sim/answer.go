package sim

import (
	"bufio"
	"fmt"
	"time"

	"github.com/valyala/fasthttp"
)

const eventStream = "text/event-stream; charset=utf-8"

// answerFormat is the answer format of one endpoint.
type answerFormat interface {
	// whole appends an answer that is not streamed.
	whole(dst []byte, j *job, ps []progress) []byte
	// begin appends the event that announces sequence i.
	begin(dst []byte, j *job, i int) []byte
	// chunk appends the events for the tokens of sequence i after the first sent ones.
	chunk(dst []byte, j *job, i, sent int, p progress) []byte
	// reportsAborts is true if a failed sequence has an event of its own; otherwise an error
	// ends the stream.
	reportsAborts() bool
	// end appends the events after the last chunk of all sequences.
	end(dst []byte, j *job, ps []progress) []byte
	// failed appends the events that end a stream after an error.
	failed(dst []byte, j *job, f finishReason) []byte
	// refuse writes an error as the whole answer.
	refuse(ctx *fasthttp.RequestCtx, p *problem)
}

// openAIErrors are the errors of OpenAI's formats.
type openAIErrors struct{}

func (openAIErrors) failed(dst []byte, _ *job, f finishReason) []byte { return errorEvent(dst, f) }

func (openAIErrors) refuse(ctx *fasthttp.RequestCtx, p *problem) { p.openAI(ctx) }

var doneEvent = []byte("data: [DONE]\n\n")

// answerer runs jobs and writes their answers.
type answerer struct {
	*process
	active activeIDs
}

// answer runs a job and writes its answer.
func (a *answerer) answer(ctx *fasthttp.RequestCtx, j *job, w answerFormat) {
	j.number = numberIn(ctx.PostBody())
	a.journal('+', j.number)
	fault := a.faults.nextRequestFault()
	if a.injectFault(ctx, j, fault, w) {
		return
	}
	j.late, j.conn = fault, ctx.Conn()
	a.submit(j, fault == failStall)
	if j.stream {
		ctx.SetContentType(eventStream)
		if _, ok := w.(ollamaFormat); ok {
			ctx.SetContentType(lineStream)
		}
		ctx.SetBodyStreamWriter(func(out *bufio.Writer) {
			defer a.done(j)
			a.stream(out, j, w)
		})
		return
	}
	defer a.done(j)
	if j.late.late() && a.awaitFirstToken(j) {
		a.abortWork(j)
		if j.late == failResetLate {
			resetConn(j.conn)
		} else {
			w.refuse(ctx, failure(a.faultError()))
		}
		return
	}
	ps := make([]progress, len(j.reqs))
	for i, r := range j.reqs {
		var ok bool
		if ps[i], ok = a.wait(j, r); !ok {
			ctx.SetConnectionClose()
			return
		}
		if f := ps[i].reason; f.status != 0 {
			a.abortWork(j) // The client would not read the other answers.
			w.refuse(ctx, failure(f))
			return
		}
	}
	a.journal('-', j.number)
	writeJSON(ctx, fasthttp.StatusOK, w.whole(nil, j, ps))
}

// stream writes a job's events. Tokens generated while the client was slow leave in one event,
// as in SGLang.
func (a *answerer) stream(out *bufio.Writer, j *job, w answerFormat) {
	var buf []byte
	if f, ok := w.(*responsesFormat); ok {
		if buf = f.announce(nil, j); !write(out, buf) {
			a.abortWork(j)
			return
		}
	}
	ps := make([]progress, len(j.reqs))
	sent := make([]int, len(j.reqs)) // Tokens; -1 after the last event.
	begun := make([]bool, len(j.reqs))
	for open := len(j.reqs); open > 0; {
		if !a.await(j) || !a.faults.awaitUnhang(a.ctx) {
			return
		}
		buf = buf[:0]
		for i, r := range j.reqs {
			if sent[i] < 0 {
				continue
			}
			p := r.current()
			ps[i] = p
			if len(p.out) == sent[i] && p.reason.kind == "" {
				continue
			}
			if p.reason.status != 0 && !w.reportsAborts() {
				a.abortWork(j)
				write(out, w.failed(buf, j, p.reason))
				return
			}
			if !begun[i] {
				begun[i] = true
				buf = w.begin(buf, j, i)
			}
			buf = w.chunk(buf, j, i, sent[i], p)
			if sent[i] = len(p.out); p.reason.kind != "" {
				sent[i] = -1
				open--
			}
		}
		if open == 0 {
			buf = w.end(buf, j, ps)
			a.journal('-', j.number)
		}
		if !write(out, buf) {
			a.abortWork(j)
			return
		}
		if j.late.late() && len(buf) > 0 {
			a.abortWork(j)
			if j.late == failResetLate {
				resetConn(j.conn)
			} else {
				write(out, w.failed(nil, j, a.faultError()))
			}
			return
		}
	}
}

// faultError is the error of a request that a fault has hit.
func (a *answerer) faultError() finishReason {
	if s := a.faults.state().status; s >= fasthttp.StatusBadRequest && s < 600 {
		return finishReason{kind: "abort", status: s, message: fasthttp.StatusMessage(s)}
	}
	return finishReason{kind: "abort", status: fasthttp.StatusInternalServerError, message: "Internal server error"}
}

// injectFault answers a request by a fault; false if there is none, or one that begins later.
func (a *answerer) injectFault(ctx *fasthttp.RequestCtx, j *job, fault requestFault, w answerFormat) bool {
	switch fault {
	case failStatus:
	case failReset:
		resetConn(ctx.Conn())
		return true
	case failEvent:
		if j.stream {
			ctx.SetContentType(eventStream)
			ctx.SetBody(w.failed(nil, j, a.faultError()))
			return true
		}
	case failEmpty:
		return true
	case failJSON:
		writeJSON(ctx, fasthttp.StatusOK, []byte(`{"error":{"message":"Internal server error"}}`))
		return true
	default:
		return false
	}
	w.refuse(ctx, failure(a.faultError()))
	return true
}

// awaitFirstToken returns when j's first sequence has a token or has ended; false after a crash,
// and after the client has left.
func (a *answerer) awaitFirstToken(j *job) bool {
	for {
		if p := j.reqs[0].current(); len(p.out) > 0 || p.reason.kind != "" {
			return true
		}
		if !a.await(j) {
			return false
		}
	}
}

// abortWork aborts the requests of a job that nobody waits for.
func (a *answerer) abortWork(j *job) {
	for _, r := range j.reqs {
		r.home.abort(r.id, false)
	}
}

func write(out *bufio.Writer, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if _, err := out.Write(b); err != nil {
		return false
	}
	return out.Flush() == nil
}

// answerText is the text of a sequence so far, without a final stop string or end-of-sequence
// token.
func answerText(r *request, p progress) []byte {
	ids := p.out
	if p.reason.hasToken && !r.stop.keep {
		ids = ids[:len(ids)-1]
	}
	text := decoded(ids)
	return text[:len(text)-p.reason.trim]
}

// submit queues a job's sequences at their ranks.
func (a *answerer) submit(j *job, stalled bool) {
	for _, r := range j.reqs {
		a.active.add(r.id)
		if a.cfg.Mode != "" && r.leg == nil && !j.whole {
			r.end(finishReason{kind: "abort", status: fasthttp.StatusBadRequest, message: fmt.Sprintf(
				"Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'", r.id)}, time.Now())
			r.signal()
			continue
		}
		r.stalled = stalled
		r.home.submit(r)
	}
}

// done removes a job's ids.
func (a *answerer) done(j *job) {
	for _, r := range j.reqs {
		a.active.remove(r.id)
	}
}

// wait returns when r, a sequence of j, has ended; false after a crash, and after the client has
// left.
func (a *answerer) wait(j *job, r *request) (progress, bool) {
	for {
		if p := r.current(); p.reason.kind != "" {
			return p, a.faults.awaitUnhang(a.ctx)
		}
		if !a.await(j) {
			return progress{}, false
		}
	}
}
