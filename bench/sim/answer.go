package sim

import (
	"bufio"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

const eventStream = "text/event-stream; charset=utf-8"

// wording is how one endpoint words its answers.
type wording interface {
	// whole appends the answer that is no stream.
	whole(dst []byte, j *job, ps []progress) []byte
	// begin appends the event that announces sequence i.
	begin(dst []byte, j *job, i int) []byte
	// chunk appends the events that bring sequence i from sent tokens to p.
	chunk(dst []byte, j *job, i, sent int, p progress) []byte
	// tellsAborts says whether a sequence that failed has an event of its own, or ends
	// the stream with an error.
	tellsAborts() bool
	// end appends what follows the last chunk of all sequences.
	end(dst []byte, j *job, ps []progress) []byte
}

// answerer runs jobs and writes their answers.
type answerer struct {
	*process
	busy registry
}

// answer runs a job and writes its answer.
func (a *answerer) answer(ctx *fasthttp.RequestCtx, j *job, w wording) {
	fault := a.faults.next()
	if a.spoil(ctx, j, fault) {
		return
	}
	j.late = fault
	a.submit(j, fault == failStall)
	c := ctx.Conn()
	if j.stream {
		ctx.SetContentType(eventStream)
		ctx.SetBodyStreamWriter(func(out *bufio.Writer) {
			defer a.done(j)
			a.stream(c, out, j, w)
		})
		return
	}
	defer a.done(j)
	if j.late.late() && a.begun(j) {
		a.leave(j)
		if j.late == failResetLate {
			resetConn(ctx.Conn())
		} else {
			failure(a.spoiled()).openAI(ctx)
		}
		return
	}
	ps := make([]progress, len(j.reqs))
	for i, r := range j.reqs {
		var ok bool
		if ps[i], ok = a.wait(r); !ok {
			ctx.SetConnectionClose()
			return
		}
		if f := ps[i].reason; f.status != 0 {
			a.leave(j) // nobody would read the answers of the others
			if _, own := w.(native); own {
				failure(f).native(ctx)
			} else {
				failure(f).openAI(ctx)
			}
			return
		}
	}
	writeJSON(ctx, fasthttp.StatusOK, w.whole(nil, j, ps))
}

// stream writes a job's events as its tokens come. Tokens that came while the
// client was slow leave in one event, as they do in SGLang.
func (a *answerer) stream(c net.Conn, out *bufio.Writer, j *job, w wording) {
	var buf []byte
	ps := make([]progress, len(j.reqs))
	sent := make([]int, len(j.reqs)) // tokens; -1 once the last event is out
	begun := make([]bool, len(j.reqs))
	for open := len(j.reqs); open > 0; {
		if !a.await(j) || !a.faults.pass(a.ctx) {
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
			if p.reason.status != 0 && !w.tellsAborts() {
				a.leave(j)
				write(out, errorEvent(buf, p.reason))
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
			buf = append(w.end(buf, j, ps), "data: [DONE]\n\n"...)
		}
		if !write(out, buf) {
			a.leave(j)
			return
		}
		if j.late.late() && len(buf) > 0 {
			a.leave(j)
			if j.late == failResetLate {
				resetConn(c)
			} else {
				write(out, errorEvent(nil, a.spoiled()))
			}
			return
		}
	}
}

// spoiled is what a request that a fault has hit is told.
func (a *answerer) spoiled() finish {
	if s := int(a.faults.status.Load()); s >= fasthttp.StatusBadRequest && s < 600 {
		return finish{kind: "abort", status: s, message: fasthttp.StatusMessage(s)}
	}
	return finish{kind: "abort", status: fasthttp.StatusInternalServerError, message: "Internal server error"}
}

// spoil answers a request as a fault wants it to be; false if there is none, or one
// that comes later.
func (a *answerer) spoil(ctx *fasthttp.RequestCtx, j *job, fault requestFault) bool {
	switch fault {
	case failStatus:
	case failReset:
		resetConn(ctx.Conn())
		return true
	case failEvent:
		if j.stream {
			ctx.SetContentType(eventStream)
			ctx.SetBody(errorEvent(nil, a.spoiled()))
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
	told := a.spoiled()
	(&problem{status: told.status, message: told.message}).openAI(ctx)
	return true
}

// begun returns when the first of j's sequences has a token or has ended; false after
// a crash.
func (a *answerer) begun(j *job) bool {
	for {
		if p := j.reqs[0].current(); len(p.out) > 0 || p.reason.kind != "" {
			return true
		}
		if !a.await(j) {
			return false
		}
	}
}

// await returns when one of j's sequences may have news; false after a crash.
func (a *answerer) await(j *job) bool {
	select {
	case <-j.wake:
		return true
	case <-a.ctx.Done():
		return false
	}
}

// leave aborts the work for a client that has gone. SGLang notices, too, when it
// cannot write.
func (a *answerer) leave(j *job) {
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

// answerText is the text of a sequence so far, without the stop string that
// ended it and without an end-of-sequence token.
func answerText(r *request, p progress) []byte {
	ids := p.out
	if p.reason.hasToken && !r.stop.keep {
		ids = ids[:len(ids)-1]
	}
	text := decoded(ids)
	return text[:len(text)-p.reason.trim]
}

// submit hands a job's sequences to their ranks.
func (a *answerer) submit(j *job, stalled bool) {
	for _, r := range j.reqs {
		a.busy.add(r.id)
		if a.cfg.Mode != "" && r.leg == nil && !j.whole {
			r.end(finish{kind: "abort", status: fasthttp.StatusBadRequest, message: fmt.Sprintf(
				"Invalid request: Disaggregated request received without bootstrap room id. req.rid='%s'", r.id)}, time.Now())
			r.signal()
			continue
		}
		r.stalled = stalled
		r.home.submit(r)
	}
}

// done forgets a job's ids.
func (a *answerer) done(j *job) {
	for _, r := range j.reqs {
		a.busy.remove(r.id)
	}
}

// wait returns when r has ended; false if the worker crashed first.
func (a *answerer) wait(r *request) (progress, bool) {
	for {
		if p := r.current(); p.reason.kind != "" {
			return p, a.faults.pass(a.ctx)
		}
		select {
		case <-r.wake:
		case <-a.ctx.Done():
			return progress{}, false
		}
	}
}
