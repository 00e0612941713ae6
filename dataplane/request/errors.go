package request

import (
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/request/clientkey"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// Failures of an attempt.
var (
	// errRefused is a worker that answered 429 or 503 before the answer began.
	errRefused = errors.New("request: worker refused")
	// errHung is a worker that stopped answering its probes while a request waited for it.
	errHung = errors.New("request: worker hangs")
	// errFailed is a worker that answered with a status from 500 on, or with such an error inside
	// its answer.
	errFailed = errors.New("request: worker answered with an error")
	// errTransfer is a failed KV transfer between the workers of a pair: either may be at fault.
	errTransfer = errors.New("request: KV transfer between prefill and decode worker failed")
	// errLate is a decode worker that does not begin although the prompt is prefilled.
	errLate = errors.New("request: decode worker lags behind the prefill worker")
	// errClient is a prefill worker that refuses the request as the client's fault.
	errClient = errors.New("request: worker refused the request as invalid")
)

// statusError makes an error of an answer's status.
func statusError(status int, transfer bool) error {
	switch {
	case status >= fasthttp.StatusInternalServerError && transfer:
		return errTransfer
	case status == fasthttp.StatusServiceUnavailable, status == fasthttp.StatusTooManyRequests:
		return errRefused
	case status >= fasthttp.StatusInternalServerError:
		return errFailed
	case status >= fasthttp.StatusBadRequest:
		return errClient
	default:
		return nil
	}
}

// retryable reports whether another worker may be asked: the client has got nothing, and the
// failure is the worker's.
func retryable(err error) bool {
	return silenced(err) || errors.Is(err, upstream.ErrBadResponse) || errors.Is(err, errRefused) ||
		errors.Is(err, errFailed) || errors.Is(err, errTransfer) || errors.Is(err, errLate)
}

// silenced reports whether a worker may be gone: it was not reached, or stopped in the middle of
// its answer.
func silenced(err error) bool {
	return upstream.Retryable(err) || errors.Is(err, upstream.ErrTruncated) || errors.Is(err, errHung)
}

// givenUp reports whether a worker may compute an answer that no client gets: the router has waited
// long enough for it.
func givenUp(err error) bool {
	return errors.Is(err, errHung) || errors.Is(err, errLate) || errors.Is(err, upstream.ErrTimeout)
}

// busy reports whether a worker took longer than a time-out allows while its scheduler runs: the
// request waits in its queue, or was put back there for lack of memory.
func busy(rank *worker.Rank, err error, now time.Time) bool {
	return errors.Is(err, upstream.ErrTimeout) && rank.Load.Reporting(now)
}

// causeOf names a failure in metrics.
func causeOf(err error) string {
	switch {
	case errors.Is(err, errRefused):
		return "refused"
	case errors.Is(err, errTransfer):
		return "transfer"
	case errors.Is(err, errFailed):
		return "error"
	case errors.Is(err, errLate):
		return "late"
	case errors.Is(err, errHung):
		return "hung"
	case errors.Is(err, upstream.ErrDial):
		return "unreachable"
	case errors.Is(err, upstream.ErrTimeout):
		return "timeout"
	case errors.Is(err, upstream.ErrNoResponse), errors.Is(err, upstream.ErrTruncated):
		return "died"
	default:
		return "other"
	}
}

// ErrorFor is the one table from errors to the clients' error messages.
func ErrorFor(err error, model string) *openai.Error {
	var e *openai.Error
	var full *queue.RefusedError
	var beyond *clientkey.LimitError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, routing.ErrUnknownModel):
		return openai.ModelNotFound(model)
	case errors.Is(err, routing.ErrNoPrefill):
		return openai.Overloaded("No prefill worker is ready, which the decode workers need.")
	case errors.Is(err, routing.ErrNoDecode):
		return openai.Overloaded("No decode worker is ready, which the prefill workers need.")
	case errors.Is(err, routing.ErrNoWorker):
		return openai.NoWorker(model)
	case errors.Is(err, routing.ErrAmbiguous):
		return openai.BadRequest("model", "This router serves several models: name one in the field model, or in the path of GET /v1/models/{model}.")
	case errors.As(err, &beyond):
		e := openai.RateLimited(limitMessages[beyond.Reason])
		e.Reason = beyond.Reason.String()
		return e
	case errors.As(err, &full):
		e := openai.RateLimited(refusalMessages[full.Reason])
		e.Reason = string(full.Reason)
		return e
	case errors.Is(err, queue.ErrClosed):
		return openai.Overloaded("The router is shutting down.")
	case givenUp(err):
		return openai.UpstreamTimeout("No worker answered in time.")
	case errors.Is(err, upstream.ErrBadResponse):
		return openai.Upstream("The worker's answer was not valid HTTP.")
	case errors.Is(err, errRefused):
		return openai.Overloaded("Every worker that was tried refused the request.")
	case errors.Is(err, errFailed), errors.Is(err, errTransfer):
		return openai.Upstream("Every pair of workers that was tried failed before it answered.")
	case errors.Is(err, upstream.ErrDial), errors.Is(err, upstream.ErrNoResponse),
		errors.Is(err, upstream.ErrTruncated):
		return openai.Upstream("Every worker that was tried failed before it answered.")
	case errors.Is(err, upstream.ErrBadRequest):
		return openai.BadRequest("",
			"The request cannot be forwarded: its path or a header holds control characters.")
	default:
		return openai.Internal("The router failed to handle the request.")
	}
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
	ctx.SetBody(errorsOf(ctx.Path()).append(nil, e))
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
