package request

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/routing"
	"github.com/warmpath/warmpath/dataplane/routing/queue"
	"github.com/warmpath/warmpath/dataplane/upstream"
)

// errorFor is the one table from errors to what a client is told.
func errorFor(err error, model string) *openai.Error {
	var e *openai.Error
	var full *queue.RefusedError
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
		return openai.BadRequest("model", "Several models are served here: name one in the field model.")
	case errors.As(err, &full):
		return openai.RateLimited(busyWords[full.Reason])
	case errors.Is(err, queue.ErrClosed):
		return openai.Overloaded("The router stops.")
	case errors.Is(err, errHung), errors.Is(err, errLate), errors.Is(err, upstream.ErrTimeout):
		return openai.UpstreamTimeout("No worker answered in time.")
	case errors.Is(err, upstream.ErrBadResponse):
		return openai.Upstream("The worker's answer was not valid HTTP.")
	case errors.Is(err, errRefused):
		return openai.Overloaded("Every worker that was tried refused the request.")
	case errors.Is(err, errFailed), errors.Is(err, errTransfer):
		return openai.Upstream("Every pair of workers that was tried failed before it answered.")
	case errors.Is(err, upstream.ErrDial), errors.Is(err, upstream.ErrNoResponse), errors.Is(err, upstream.ErrTruncated):
		return openai.Upstream("Every worker that was tried failed before it answered.")
	case errors.Is(err, upstream.ErrBadRequest):
		return openai.BadRequest("", "The request cannot be forwarded: its path or a header holds control characters.")
	default:
		return openai.Internal("The router failed to handle the request.")
	}
}

// busyWords say why a request may not wait for a worker.
var busyWords = map[queue.Reason]string{
	queue.ReasonFull:      "Every worker is busy, and too many requests wait already.",
	queue.ReasonDisplaced: "Every worker is busy, and other requests go first.",
	queue.ReasonDeadline:  "Every worker is busy, and none had room in time.",
}

// unreadable is why a body is none: err, unless the client has compressed it.
func unreadable(c call, err error) error {
	if coding := c.peek(fasthttp.HeaderContentEncoding); len(coding) > 0 && !bytes.EqualFold(coding, []byte("identity")) {
		return openai.UnknownCoding(string(coding))
	}
	return err
}

// noSuchRank reports whether a prompt is for a data-parallel rank that no worker of its model has, ready or not.
func (s *Server) noSuchRank(p *routing.Prompt) bool {
	known := false
	for _, w := range s.Registry.Snapshot().Workers {
		info := w.Info()
		if info == nil || !routing.Serves(info, p.Model) {
			continue
		}
		if known = true; p.DP < info.DPSize {
			return false
		}
	}
	return known
}
