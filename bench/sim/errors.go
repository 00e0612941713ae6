package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// problem is a request that SGLang would refuse. Its three families of endpoints
// word one problem in different ways; see [problem.native] and [problem.openAI].
type problem struct {
	status     int
	message    string
	validation bool // found while the body was read, worded alike everywhere
	scheduler  bool // found by the scheduler: its status is also its type
}

// failure is f, an abort with a status, as a problem.
func failure(f finishReason) *problem {
	return &problem{status: f.status, message: f.message, scheduler: f.status >= fasthttp.StatusInternalServerError}
}

// Error implements error.
func (p *problem) Error() string { return "sim: " + p.message }

// refused is a problem with what the request asks for.
func refused(format string, args ...any) error {
	return &problem{status: fasthttp.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// invalid is a field of a wrong type, in the words of SGLang's validator.
func invalid(kind, key, what string) error {
	return &problem{status: fasthttp.StatusBadRequest, validation: true, message: fmt.Sprintf(
		"1 validation error:\n  {'type': '%s', 'loc': ('body', '%s'), 'msg': '%s'}\n", kind, key, what)}
}

// asProblem returns err as a problem.
func asProblem(err error) *problem {
	var p *problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, errJSON):
		return &problem{status: fasthttp.StatusBadRequest, validation: true, message: "1 validation error:\n" +
			"  {'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error', 'input': {}}\n"}
	}
	return &problem{status: fasthttp.StatusInternalServerError, message: err.Error()}
}

// native writes p as /generate does.
func (p *problem) native(ctx *fasthttp.RequestCtx) {
	if p.validation || p.scheduler {
		p.openAI(ctx)
		return
	}
	b := append([]byte(nil), `{"error":{"message":`...)
	b = append(appendJSONString(b, p.message), "}}"...)
	writeJSON(ctx, p.status, b)
}

// openAI writes p as the OpenAI endpoints do.
func (p *problem) openAI(ctx *fasthttp.RequestCtx) {
	kind := "BadRequestError"
	switch {
	case p.validation:
		kind = "Bad Request"
	case p.scheduler:
		kind = strconv.Itoa(p.status)
	case p.status >= fasthttp.StatusInternalServerError:
		kind = "InternalServerError"
	}
	b := append([]byte(nil), `{"object":"error","message":`...)
	b = appendJSONString(b, p.message)
	b = append(b, `,"type":"`...)
	b = append(append(b, kind...), `","param":null,"code":`...)
	b = append(appendInt(b, p.status), '}')
	writeJSON(ctx, p.status, b)
}

// event is p as the one event of a stream of /generate, which has said 200 before
// it looks at the prompt.
func (p *problem) event(dst []byte) []byte {
	dst = append(dst, `data: {"error":{"message":`...)
	dst = appendJSONString(dst, p.message)
	dst = append(dst, `,"type":"invalid_request_error","code":`...)
	dst = appendInt(dst, p.status)
	return append(dst, ",\"retryable\":false}}\n\ndata: [DONE]\n\n"...)
}

// errorEvent is f as the last event of an OpenAI stream.
func errorEvent(dst []byte, f finishReason) []byte {
	name := strings.ToUpper(strings.ReplaceAll(fasthttp.StatusMessage(f.status), " ", "_"))
	dst = append(dst, `data: {"error": {"object": "error", "message": `...)
	dst = append(appendJSONString(dst, f.message), `, "type": "`...)
	dst = append(append(dst, name...), `", "param": null, "code": `...)
	return append(appendInt(dst, f.status), "}}\n\ndata: [DONE]\n\n"...)
}

func writeJSON(ctx *fasthttp.RequestCtx, status int, b []byte) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(b)
}
