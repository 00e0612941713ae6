package disagg

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// Events of /v1/responses that an engine sends before it has computed anything, and for a failure.
// SGLang writes the type first.
var (
	responseCreated  = []byte(`{"type":"response.created"`)
	responseProgress = []byte(`{"type":"response.in_progress"`)
	responseFailed   = []byte(`{"type":"response.failed"`)
	responseError    = []byte(`{"type":"error"`)
)

// judgeResponses is JudgeStream for /v1/responses: response.created and response.in_progress
// promise nothing. A failure has no status, and a prompt that is too long is one: it counts as the
// client's unless it is about the KV transfer, until another server answers well.
func judgeResponses(p []byte, whole bool) (Verdict, Failure) {
	cut := whole || len(p) >= MaxBegin
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, newline)
		data, ok := bytes.CutPrefix(line, dataPrefix)
		data = bytes.TrimSpace(data)
		switch failed := bytes.HasPrefix(data, responseFailed) || bytes.HasPrefix(data, responseError); {
		case !ended && !cut && (!ok || failed || len(data) <= len(responseProgress) || beginsError(data[1:])):
			return More, Failure{}
		case !ok, len(data) == 0, bytes.HasPrefix(data, responseCreated), bytes.HasPrefix(data, responseProgress):
			p = rest
			continue
		case failed && IsTransferError(data):
			return Failed, Failure{Status: fasthttp.StatusInternalServerError, Transfer: true}
		case failed:
			return Failed, Failure{Status: fasthttp.StatusBadRequest}
		}
		if f, failed := failureOf(data); failed && ended {
			return Failed, f
		}
		r := formTyped.read(data, nil)
		if !ended && !cut && r.first == '{' && r.fit == fitsMaybe {
			return More, Failure{}
		}
		return judgeEvent(&r, rest, ended, whole)
	}
	switch {
	case whole:
		return Failed, NoEvent
	case cut:
		return Good, Failure{}
	}
	return More, Failure{}
}
