package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// problem is a request that SGLang refuses. Its three families of endpoints format an error
// differently; see [problem.native] and [problem.openAI].
type problem struct {
	status     int
	message    string
	param      string // of /v1/responses: the field at fault
	validation bool   // Found while the body is parsed; the same format everywhere.
	scheduler  bool   // Found by the scheduler: the type is the status.
}

// failure turns an abort with a status into a problem.
func failure(f finishReason) *problem {
	return &problem{status: f.status, message: f.message, scheduler: f.status >= fasthttp.StatusInternalServerError}
}

// Error implements error.
func (p *problem) Error() string { return "sim: " + p.message }

// refused is a problem of a well-formed request.
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

// native writes p in the format of /generate.
func (p *problem) native(ctx *fasthttp.RequestCtx) {
	if p.validation || p.scheduler {
		p.openAI(ctx)
		return
	}
	writeJSON(ctx, p.status, fmt.Appendf(nil, `{"error":{"message":%s}}`, quoted(p.message)))
}

// openAI writes p in the format of the OpenAI endpoints.
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
	writeJSON(ctx, p.status, fmt.Appendf(nil, `{"object":"error","message":%s,"type":"%s","param":null,"code":%d}`, quoted(p.message), kind, p.status))
}

// event appends p as the only event of a stream of /generate, which sends 200 before it checks
// the prompt.
func (p *problem) event(dst []byte) []byte {
	return fmt.Appendf(dst, `data: {"error":{"message":%s,"type":"invalid_request_error","code":%d,"retryable":false}}`+"\n\ndata: [DONE]\n\n",
		quoted(p.message), p.status)
}

// errorEvent appends f as the last event of an OpenAI stream.
func errorEvent(dst []byte, f finishReason) []byte {
	name := strings.ToUpper(strings.ReplaceAll(fasthttp.StatusMessage(f.status), " ", "_"))
	return fmt.Appendf(dst, `data: {"error": {"object": "error", "message": %s, "type": "%s", "param": null, "code": %d}}`+"\n\ndata: [DONE]\n\n",
		quoted(f.message), name, f.status)
}

func writeJSON(ctx *fasthttp.RequestCtx, status int, b []byte) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBody(b)
}
