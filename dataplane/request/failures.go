package request

import (
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/ingress"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// failure holds the consequences of one cause.
type failure struct {
	is     []error // errors of this cause; see also [causeOfStatus]
	label  string  // of warmpath_pair_failures_total
	then   effect
	fault  fault
	client func(model string) *openai.Error // the client's answer where it gets none of a worker's
}

// failures is the one table of failures: for each cause another try or none, the side at fault, the
// suspicion that the worker is gone, and the client's answer. The first row that fits counts. Rules
// that look back at other answers are in blame.go: second opinions, doubts, and requests that end
// engines.
var failures = [...]failure{
	// A worker has answered with an error. The client gets that, but for one that says nothing.
	causeBusy: {
		is(errRefused), "refused", again | untaken | free, faultBusy,
		says(openai.Overloaded, "Every worker that was tried refused the request."),
	},
	causeInvalid: {
		is(errClient), "other", 0, faultClient,
		says(openai.Internal, "The router failed to handle the request."),
	},
	causeBroken: {
		is(errFailed), "error", again | pause, faultDoubt,
		says(openai.Upstream, "Every pair of workers that was tried failed before it answered."),
	},
	causeTransfer: {
		is(errTransfer), "transfer", again | pause | death | lastResort, faultEither,
		says(openai.Upstream, "Every pair of workers that was tried failed before it answered."),
	},

	// A worker has not answered.
	causeLate: {
		is(errLate), "late", again | stop | lastResort, faultEither,
		says(openai.UpstreamTimeout, "No worker answered in time."),
	},
	// A monitor has found it, and need not look again. That is enough at a worker alone: only a
	// pair's counts here, too.
	causeHung: {
		is(errHung), "hung", again | stop | death | lastResort, faultWorker,
		says(openai.UpstreamTimeout, "No worker answered in time."),
	},
	causeShortage: {
		is(upstream.ErrShortage), "shortage", again | untaken, faultBusy,
		says(openai.Overloaded, "The router's machine has no file descriptor, port or memory for one more connection to a worker."),
	},
	causeUnreachable: {
		is(upstream.ErrDial), "unreachable", again | untaken | suspect, faultWorker,
		says(openai.Upstream, "Every worker that was tried failed before it answered."),
	},
	// The operator sets the time, so whether the worker is at fault depends on earlier failures of
	// the client and the prompt.
	causeTimeout: {
		is(upstream.ErrTimeout), "timeout", stop, faultSlow,
		says(openai.UpstreamTimeout, "No worker answered in time."),
	},
	causeDied: {
		is(upstream.ErrNoResponse, upstream.ErrTruncated), "died", again | suspect | death, faultLoss,
		says(openai.Upstream, "Every worker that was tried failed before it answered."),
	},
	causeGarbled: {
		is(upstream.ErrBadResponse), "other", again, faultDoubt,
		says(openai.Upstream, "The worker's answer was not valid HTTP."),
	},
	causeUnknown: {nil, "other", 0, faultNone, // no row fits
		says(openai.Internal, "The router failed to handle the request.")},

	// The request cannot be sent to any worker, or its client has left.
	{
		is(upstream.ErrBadRequest), "other", 0, faultClient,
		badRequest("", "The request cannot be forwarded: its path or a header holds control characters."),
	},
	{
		is(upstream.ErrCanceled, upstream.ErrClient), "other", 0, faultNone,
		says(openai.Internal, "The router failed to handle the request."),
	},

	// No worker is asked.
	{is(routing.ErrUnknownModel), "", 0, faultNone, openai.ModelNotFound},
	{
		is(routing.ErrNoPrefill), "", 0, faultNone,
		says(openai.Overloaded, "No prefill worker is ready, which the decode workers need."),
	},
	{
		is(routing.ErrNoDecode), "", 0, faultNone,
		says(openai.Overloaded, "No decode worker is ready, which the prefill workers need."),
	},
	{is(routing.ErrNoWorker), "", 0, faultNone, openai.NoWorker},
	{
		is(routing.ErrAmbiguous), "", 0, faultNone,
		badRequest("model", "This router serves several models: name one in the field model, or in the path of GET /v1/models/{model}."),
	},
	{is(queue.ErrClosed), "", 0, faultNone, says(openai.Overloaded, "The router is shutting down.")},
	{
		is(ingress.ErrFull), "", 0, faultNone,
		says(openai.Overloaded, "All connections that clients may have are in use."),
	},
	{
		is(ingress.ErrHeadTooLarge), "", 0, faultClient,
		unread(fasthttp.StatusRequestHeaderFieldsTooLarge, "header_too_large", "The request's header is too large."),
	},
	{
		is(ingress.ErrExpectation), "", 0, faultClient,
		unread(fasthttp.StatusExpectationFailed, "expectation_failed", "The router supports no Expect but 100-continue."),
	},
	{
		is(ingress.ErrVersion), "", 0, faultClient,
		unread(fasthttp.StatusHTTPVersionNotSupported, "http_version_not_supported", "The router speaks HTTP/1.1 and HTTP/1.0."),
	},
	{
		is(ingress.ErrSlowRequest), "", 0, faultClient,
		unread(fasthttp.StatusRequestTimeout, "request_timeout", "The request did not arrive in time."),
	},
}

// cause is the index of a row of [failures].
type cause uint8

const (
	causeNone        cause = iota
	causeBusy              // 429 or 503: the worker is full, starts or stops
	causeInvalid           // another status below 500
	causeBroken            // a status from 500 on, also inside the answer, or no answer of the API
	causeTransfer          // the KV transfer of a pair failed, and either worker may be at fault
	causeLate              // a decode worker does not begin although the prompt is prefilled
	causeHung              // the worker stopped answering its probes while a request waited for it
	causeShortage          // there was no connection, for lack of something on this machine
	causeUnreachable       // there was no connection
	causeTimeout           // no byte came for as long as a worker may take
	causeDied              // the connection ended before the answer did
	causeGarbled           // the answer is not HTTP
	causeUnknown
)

// effect is a set of consequences.
type effect uint8

const (
	again      effect = 1 << iota // another worker is asked
	untaken                       // also for a request that is sent once: no worker has begun it
	free                          // a retry has no price, for the worker has computed nothing
	suspect                       // the worker may be gone: its monitor looks at once
	stop                          // the worker aborts: it may compute an answer that no client gets
	death                         // the engine may have died of the request; see countDeaths
	pause                         // of a pair: its partner may have died just now; see pausePair
	lastResort                    // the worker is tried once more when no other is left
)

// fault is the side that a failure speaks against.
type fault uint8

const (
	// faultNone counts against neither worker nor client.
	faultNone fault = iota
	// faultClient is the client's if another worker answers the same, and else the worker's.
	faultClient
	// faultBusy is a full worker's, for a short time, if another one takes the request.
	faultBusy
	// faultWorker counts at once: no request can be the cause.
	faultWorker
	// faultDoubt may be the request's own. It counts if another worker answers well; if no other is
	// asked, by the memory that [sources] has of client and prompt.
	faultDoubt
	// faultEither is faultDoubt of both workers of a pair.
	faultEither
	// faultLoss is faultDoubt that sources may have count at once: a worker that closes connections
	// looks idle and draws requests until its breaker opens.
	faultLoss
	// faultSlow is faultDoubt unless the worker's scheduler runs: the request waits in its queue,
	// or was put back there for lack of memory.
	faultSlow
)

// Errors of an attempt that no other package has.
var (
	errRefused  = errors.New("request: worker refused")
	errHung     = errors.New("request: worker hangs")
	errFailed   = errors.New("request: worker answered with an error")
	errTransfer = errors.New("request: KV transfer between prefill and decode worker failed")
	errLate     = errors.New("request: decode worker lags behind the prefill worker")
	errClient   = errors.New("request: worker refused the request as invalid")
)

// errNothing stands for answers with a good status that answer nothing.
var errNothing = openai.Upstream("Every worker that was tried answered with a good status and no answer of this API.")

// errCut ends an answer that a worker broke off.
var errCut = openai.Upstream("The worker failed before the end of its answer.")

func is(errs ...error) []error { return errs }

// says returns the same answer for every model.
func says(answer func(message string) *openai.Error, message string) func(string) *openai.Error {
	return func(string) *openai.Error { return answer(message) }
}

func badRequest(param, message string) func(string) *openai.Error {
	return func(string) *openai.Error { return openai.BadRequest(param, message) }
}

func unread(status int, code, message string) func(string) *openai.Error {
	return func(string) *openai.Error {
		return &openai.Error{Status: status, Type: "invalid_request_error", Code: code, Message: message}
	}
}

// causeOf returns the cause of an error.
func causeOf(err error) cause {
	for c := range failures {
		for _, e := range failures[c].is {
			if errors.Is(err, e) {
				return cause(c)
			}
		}
	}
	return causeUnknown
}

// causeOfStatus returns the cause that a status stands for. transfer says that the answer is about
// the KV transfer of a pair.
func causeOfStatus(status int, transfer bool) cause {
	switch {
	case status < fasthttp.StatusBadRequest:
		return causeNone
	case status == fasthttp.StatusTooManyRequests, status == fasthttp.StatusServiceUnavailable && !transfer:
		return causeBusy
	case status < fasthttp.StatusInternalServerError:
		return causeInvalid
	case transfer:
		return causeTransfer
	}
	return causeBroken
}

func (c cause) leadsTo(e effect) bool { return failures[c].then&e != 0 }

// err returns an error of the cause; nil of none.
func (c cause) err() error {
	if c == causeNone {
		return nil
	}
	return failures[c].is[0]
}

// speaksAgainst reports whether a failure says anything against the worker that it happened at.
func (c cause) speaksAgainst(rank *worker.Rank, now time.Time) bool {
	switch failures[c].fault {
	case faultNone, faultClient, faultBusy:
		return false
	case faultSlow:
		return !rank.Load.Reporting(now)
	}
	return true
}

// ErrorFor returns the client's error message for an error.
func ErrorFor(err error, model string) *openai.Error {
	var e *openai.Error
	var full *queue.RefusedError
	var beyond *clientkey.LimitError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &beyond):
		e = openai.RateLimited(limitMessages[beyond.Reason])
		e.Reason = beyond.Reason.String()
	case errors.As(err, &full):
		e = openai.RateLimited(refusalMessages[full.Reason])
		e.Reason = string(full.Reason)
	default:
		e = failures[causeOf(err)].client(model)
	}
	return e
}

// refusalMessages say why the queue refused a request.
var refusalMessages = map[queue.Reason]string{
	queue.ReasonFull:      "Every worker is busy, and the queue is full.",
	queue.ReasonDisplaced: "Every worker is busy, and requests of higher priority fill the queue.",
	queue.ReasonDeadline:  "Every worker is busy, and none had room before the deadline (X-Warmpath-Deadline, else the router's --queue-timeout).",
	queue.ReasonPredicted: "Every worker is busy, and none is expected to have room before the deadline (X-Warmpath-Deadline, else the router's --queue-timeout).",
}

// limitMessages say which limit of its key a request is beyond.
var limitMessages = map[clientkey.Reason]string{
	clientkey.ReasonRequests:    "This API key has used up its requests per minute.",
	clientkey.ReasonTokens:      "This API key has used up its tokens per minute.",
	clientkey.ReasonConcurrency: "This API key has as many requests under way as it may have.",
}

// Fail refuses a request that is no exchange: it answers with an error and logs it.
func (h *Handler) Fail(ctx *fasthttp.RequestCtx, e *openai.Error) {
	h.fail(ctx, e)
	h.logRefusal(ctx, e)
}

// fail answers with an error in the form of the path's API, and counts it.
func (h *Handler) fail(ctx *fasthttp.RequestCtx, e *openai.Error) {
	h.metrics.failed(e)
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	ctx.SetContentType("application/json")
	if e.Status == fasthttp.StatusUnauthorized {
		challenge := "Bearer"
		if e.Reason == reasonToken { // RFC 6750 3.1
			challenge = `Bearer error="` + reasonToken + `"`
		}
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, challenge)
	}
	if e.Status == fasthttp.StatusServiceUnavailable || e.Status == fasthttp.StatusTooManyRequests {
		setRetryAfter(ctx, time.Second)
	}
	if e.Status == fasthttp.StatusUnsupportedMediaType {
		ctx.Response.Header.Set(fasthttp.HeaderAcceptEncoding, acceptedEncodings)
	}
	ctx.SetBody(errorBody(ctx.Path(), e))
}

// WrongMethod answers a request with another method than those of allow, which its path takes.
func (h *Handler) WrongMethod(ctx *fasthttp.RequestCtx, allow string) {
	ctx.Response.Header.Set(fasthttp.HeaderAllow, allow)
	h.Fail(ctx, &openai.Error{
		Status: fasthttp.StatusMethodNotAllowed, Type: "invalid_request_error",
		Code:    "method_not_allowed",
		Message: string(ctx.Path()) + " takes " + allow + ", not " + string(ctx.Method()) + ".",
	})
}

func setRetryAfter(ctx *fasthttp.RequestCtx, after time.Duration) {
	ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, strconv.Itoa(int(after.Seconds())))
}
