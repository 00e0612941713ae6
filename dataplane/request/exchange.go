package request

import (
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
	"github.com/warmpath/warmpath/dataplane/tracing"
	"github.com/warmpath/warmpath/dataplane/upstream"
	"github.com/warmpath/warmpath/radix"
)

// exchange is one client's request and its answer. It is pooled: release resets it, and no method
// may be called afterwards.
type exchange struct {
	h         *Handler
	call      call
	client    *ingress.Client
	api       openai.API
	inference bool   // the body was read, and the answer's usage counts
	own       []byte // members of the body that replace the client's, the same for all attempts
	req       openai.Request
	converted []byte // the chat that the body of another API stands for
	started   time.Time
	trace     *tracing.Request  // nil: it has no spans
	canceler  upstream.Canceler // of the attempt; the client's leaving cancels it

	credential credential // the client's key and its limits

	rankInBody bool         // the worker reads the data-parallel rank that is asked for there
	prompt     promptReader // body to routing.Prompt
	choice     choice       // prompt to a rank or a pair
	id         requestID
	listed     bool       // among the handler's sentIDs
	found      uint64     // the last of the handler's aborts that meant it; guarded by sentIDs.mu
	body       bodyWriter // the request as the worker gets it
	attempt    attempt    // the last one, which is single or pair; nil: no worker was asked
	single     singleAttempt
	pair       *pairAttempt // nil until the exchange's first
	errors     errorAnswers // of workers that were asked before
	answer     answer       // on its way to the client
	blocks     []radix.Hash // of the prompt, for the access log
}

func newExchange(h *Handler) *exchange {
	x := &exchange{h: h}
	x.prompt.init(x)
	x.choice.x, x.body.x, x.answer.x, x.errors.x = x, x, x, x
	x.single.init(x)
	return x
}

// serve answers the request. It is the list of steps of a request's life; withBody says that the
// method has a body.
func (x *exchange) serve(c call, key *clientkey.Key, api openai.API, withBody bool) {
	x.begin(c, api)
	x.trace = beginTrace(x.h.Tracing, c, x.started)
	if err := x.credential.begin(key, x.started); err != nil {
		x.refuse(err)
		return
	}
	if err := x.read(withBody); err != nil {
		x.refuse(err)
		return
	}
	x.client = c.client()
	x.client.Guard(&x.canceler)
	from := x.trace.Now()
	x.prompt.read(&x.choice.prompt)
	x.trace.Step(tracing.StepTokenize, from, nil)
	if err := x.credential.take(&x.choice.prompt); err != nil {
		x.refuse(err)
		return
	}
	from = x.trace.Now()
	err := x.h.admission.admit(x)
	x.trace.Step(tracing.StepQueue, from, err)
	switch {
	case err == nil:
	case x.client.Gone():
		x.abandon()
		return
	default:
		x.refuse(err)
		return
	}
	x.dispatch()
}

// begin counts the request.
func (x *exchange) begin(c call, api openai.API) {
	x.call, x.api, x.started = c, api, time.Now()
	key := x.h.live().OperatorKey
	x.answer.operator = len(key) > 0 && isOperator(c.peek(fasthttp.HeaderAuthorization), key)
	x.h.inFlight.Add(1)
}

// read parses the body and refuses one that would end an engine.
func (x *exchange) read(withBody bool) error {
	if !withBody {
		switch string(x.call.path()) {
		case "/model_info", "/get_model_info": // of any worker
			return x.checkModel()
		}
		return x.prompt.turn.find(x)
	}
	if err := x.call.decompress(x.h.inflations, x.h.live().MaxBodyBytes); err != nil {
		return err
	}
	body, err := x.parse(x.call.body())
	if err != nil {
		return err
	}
	if err := x.checkModel(); err != nil {
		return err
	}
	if err := x.findSession(); err != nil {
		return err
	}
	if err := x.readRank(); err != nil {
		return err
	}
	x.pinRank()
	x.limitPriority()
	if err := x.saltPrompt(); err != nil {
		return err
	}
	if err := x.checkVocabulary(); err != nil {
		return err
	}
	x.inference = x.api != openai.APIOther
	if l := x.h.Lint; l != nil && x.inference {
		l.Offer(body)
	}
	return nil
}

// repeatable reports whether the request may be sent to another worker after one has answered: it
// computes and changes nothing but the worker's memory of responses.
func (x *exchange) repeatable() bool {
	if x.api == openai.APIResponses {
		return !x.prompt.turn.once
	}
	return x.inference || string(x.call.method()) == fasthttp.MethodPost
}

// respond forwards a worker's answer, or its refusal, to the client.
func (x *exchange) respond(resp *upstream.Response) {
	x.errors.settle(x.choice.answering(), x.single.found)
	x.answer.forward(resp)
}

// finish ends an exchange after its answer was forwarded. err is why the answer was cut.
func (x *exchange) finish(err error) {
	x.attempt.stop(err != nil)
	x.answer.failed = x.answer.failed || err == nil && x.answer.isCut()
	now := x.answer.endedAt()
	x.trace.Step(tracing.StepStream, x.answer.firstAt, err)
	rank := x.choice.answering()
	usage := x.answer.reported(rank.Worker)
	good := x.answer.good()
	x.answer.report(rank, now, err)
	switch {
	case err != nil:
		x.attempt.abort()
		if !clientFailed(x.client, err) {
			x.h.metrics.cut(rank)
			if causeOf(err).leadsTo(suspect) {
				rank.Worker.Suspect()
			}
		}
	case x.inference && good:
		x.h.Router.Finish(&x.choice.scratch, x.single.flight, x.answer.generatedIDs(), now)
		x.single.flight = nil
	}
	if x.inference && x.answer.status == fasthttp.StatusNotFound {
		// The worker may have another model by now: SGLang's answers only repeat the request's
		// name.
		rank.Worker.Recheck()
	}
	if x.answer.status == fasthttp.StatusOK {
		prompt, completion := x.answer.computed(usage)
		x.credential.answered(now, prompt, completion)
	}
	x.h.Router.Known.End(&x.choice.decision, usage.CompletionTokens, now)
	if x.answer.events && good && err == nil {
		x.h.Router.Streamed(now.Sub(x.answer.firstAt))
	}
	if x.inference && good {
		x.answer.learn(usage)
		x.prompt.checkLength(usage)
	}
	x.h.metrics.answered(x, usage, now, err)
	x.record(usage, now, nil)
	x.release()
}

// clientFailed reports whether an answer was cut because of its client, which may have left before
// the watcher says so.
func clientFailed(c *ingress.Client, err error) bool {
	return errors.Is(err, upstream.ErrClient) || c.Gone()
}

// refuse answers with an error: of the router, or a worker's own where one has answered.
func (x *exchange) refuse(err error) {
	x.errors.undecided()
	if held := x.errors.best; held != nil {
		x.pass(held, x.errors.bestCode, x.errors.bestRank, marks{worker: x.nameOf(x.errors.bestRank)})
		return
	}
	if errors.Is(err, routing.ErrNoWorker) && x.prompt.holder != nil {
		if err = errHolder("response_id", "stores the response"); x.prompt.session != "" {
			err = errHolder("session_id", "keeps the session")
		}
	}
	refusal := ErrorFor(err, x.choice.prompt.Model)
	x.h.fail(x.call.ctx, refusal)
	setLimit(x.call.ctx, err)
	if full := (*queue.RefusedError)(nil); errors.As(err, &full) {
		setRetryAfter(x.call.ctx, full.RetryAfter)
	}
	x.recordRefusal(refusal)
	x.release()
}

// pass answers with an error of a rank's that was kept, or that came beside the answer. Where a
// good status hides it, it gets the hidden one, but for a stream, which has it as an event.
func (x *exchange) pass(kept *upstream.Kept, hidden int, rank *worker.Rank, m marks) {
	ctx := x.call.ctx
	kept.Answer(ctx)
	events := x.req.Stream && isEventStream(ctx.Response.Header.ContentType())
	if hidden > 0 && kept.Status < fasthttp.StatusBadRequest && !events {
		ctx.SetStatusCode(hidden)
	}
	m.write(&ctx.Response.Header, x.answer.shown())
	x.h.metrics.passed(rank, ctx.Response.StatusCode())
	x.recordRefusal(nil)
	x.release()
}

// abandon ends an exchange after its client has left before the answer began.
func (x *exchange) abandon() {
	x.h.metrics.clientGone.Inc()
	if x.attempt != nil {
		x.attempt.abort()
		x.credential.answered(time.Now(), x.credential.taken, 0)
		x.choice.answering().Worker.Inconclusive()
	}
	x.errors.undecided()
	ctx := x.call.ctx
	ctx.SetConnectionClose()
	ctx.SetStatusCode(statusClientClosed)
	x.recordRefusal(nil)
	x.release()
}

// statusClientClosed is nginx's status for a client that left: only logs and metrics see it.
const statusClientClosed = 499

// release gives back all that the exchange holds, and the exchange itself to the pool.
func (x *exchange) release() {
	x.h.sentIDs.remove(x)
	if x.attempt != nil {
		x.attempt.stop(true)
	}
	x.single.end()
	x.choice.ticket.Release()
	x.client.Release() // from here on nothing cancels
	x.endTrace()
	x.h.inFlight.Add(-1)
	x.credential.end()
	x.own, x.rankInBody = x.own[:0], false
	x.req.Reset()
	x.converted = emptied(x.converted)
	x.prompt.reset()
	x.canceler.Reset()
	if x.pair != nil {
		x.pair.reset()
	}
	x.choice.reset()
	x.body.reset()
	x.single.reset()
	x.attempt = nil
	x.errors.reset()
	x.answer.reset()
	x.call, x.client, x.inference, x.started, x.trace = call{}, nil, false, time.Time{}, nil
	x.h.exchanges.Put(x)
}
