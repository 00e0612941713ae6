package openai

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// Error is a failure as OpenAI's clients read it.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type and Code class the error, Param names the field at fault; "" is written as null.
	Type, Message, Param, Code string
	// Reason tells apart errors of one code; "" is not written.
	Reason string
	// Hidden is the cause where it is for operators only, as with the faults of a credential.
	Hidden string
}

// The types of error that OpenAI's clients know.
const (
	typeInvalid    = "invalid_request_error"
	typeAuth       = "authentication_error"
	typePermission = "permission_error"
	typeNotFound   = "not_found_error"
	typeRateLimit  = "rate_limit_error"
	typeOverloaded = "overloaded_error"
	typeUpstream   = "upstream_error"
	typeTimeout    = "timeout_error"
)

// Cause names the fault in a word, for logs and metrics: the most exact of its names.
func (e *Error) Cause() string { return cmp.Or(e.Hidden, e.Reason, e.Code, e.Type) }

// Error is the message, with the field at fault in front unless the message names it.
func (e *Error) Error() string {
	if e.Param == "" || names(e.Message, e.Param) {
		return e.Message
	}
	return e.Param + ": " + e.Message
}

// names reports whether a text has a name as a word of its own.
func names(text, name string) bool {
	inside := func(c byte) bool { return c == '_' || c == '-' || c|0x20 >= 'a' && c|0x20 <= 'z' || isDigit(c) }
	for from := 0; ; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(name)
		if (at == 0 || !inside(text[at-1])) && (end == len(text) || !inside(text[end])) {
			return true
		}
		from = end
	}
}

func newError(status int, kind, code, message string) *Error {
	return &Error{Status: status, Type: kind, Code: code, Message: message}
}

// BadRequest is a 400 for a body that cannot be routed.
func BadRequest(param, message string) *Error {
	e := newError(fasthttp.StatusBadRequest, typeInvalid, "", message)
	e.Param = param
	return e
}

// ModelNotFound is OpenAI's answer for a model that no worker serves.
func ModelNotFound(model string) *Error {
	e := newError(fasthttp.StatusNotFound, typeInvalid, "model_not_found",
		"The model "+strconv.Quote(model)+" does not exist or no worker serves it.")
	e.Param = "model"
	return e
}

// NotFound is for a path that is not served.
func NotFound(path string) *Error {
	return newError(fasthttp.StatusNotFound, typeNotFound, "not_found", "Nothing is served at "+path+".")
}

// TooLarge is for a body above limit bytes.
func TooLarge(limit int) *Error {
	return newError(fasthttp.StatusRequestEntityTooLarge, typeInvalid, "request_too_large",
		"The request's body is larger than "+strconv.Itoa(limit)+" bytes.")
}

// UnknownCoding is for a body that is compressed in a way that is not read.
func UnknownCoding(coding string) *Error {
	return newError(fasthttp.StatusUnsupportedMediaType, typeInvalid, "unsupported_content_encoding",
		"The body has the Content-Encoding "+strconv.Quote(coding)+", which is not read here: send it as it is, or compressed once with gzip or zstd.")
}

// NoSuchRank is for a data-parallel rank that the field param asks for and no worker of the model
// has. The model has so many ranks; 0 is unknown.
func NoSuchRank(param, rank string, ranks int) *Error {
	message := "The model has the data-parallel ranks 0 to " + strconv.Itoa(ranks-1)
	switch ranks {
	case 0:
		message = "A data-parallel rank is a number from 0"
	case 1:
		message = "The model's only data-parallel rank is 0"
	}
	return BadRequest(param, message+", not "+strconv.Quote(rank)+".")
}

// Unauthorized is for a missing or unknown API key or token.
func Unauthorized() *Error {
	return newError(fasthttp.StatusUnauthorized, typeAuth, "invalid_api_key", "No valid API key was given.")
}

// Forbidden is for a request that is not within the rights of its API key.
func Forbidden(param, message string) *Error {
	e := newError(fasthttp.StatusForbidden, typePermission, "permission_denied", message)
	e.Param = param
	return e
}

// ModelForbidden is for a model that the API key may not use.
func ModelForbidden(model string) *Error {
	return Forbidden("model", "This API key may not use the model "+strconv.Quote(model)+".")
}

// RateLimited is for a client, or a queue, above its limit: the client may try again later.
func RateLimited(message string) *Error {
	return newError(fasthttp.StatusTooManyRequests, typeRateLimit, "rate_limit_exceeded", message)
}

// Overloaded is for a cluster that cannot take the request now.
func Overloaded(message string) *Error {
	return newError(fasthttp.StatusServiceUnavailable, typeOverloaded, "overloaded", message)
}

// NoWorker is for a model without a fit worker.
func NoWorker(model string) *Error {
	message := "No worker can take the request now."
	if model != "" {
		message = "No worker can take a request for the model " + strconv.Quote(model) + " now."
	}
	return newError(fasthttp.StatusServiceUnavailable, typeOverloaded, "no_worker", message)
}

// Upstream is for a worker that failed before or during its answer.
func Upstream(message string) *Error {
	return newError(fasthttp.StatusBadGateway, typeUpstream, "upstream_error", message)
}

// UpstreamTimeout is for a worker that did not answer in time.
func UpstreamTimeout(message string) *Error {
	return newError(fasthttp.StatusGatewayTimeout, typeTimeout, "upstream_timeout", message)
}

// Internal is for a fault of our own; the message must not carry internals to the client.
func Internal(message string) *Error {
	return newError(fasthttp.StatusInternalServerError, "internal_error", "internal_error", message)
}

// AppendJSON appends {"error":{"message","type","param","code"}}, and the reason if there is one.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = AppendStringField(append(dst, `{"error":{`...), "message", e.Message)
	dst = AppendStringField(dst, "type", e.Type)
	dst = appendStringOrNull(dst, "param", e.Param)
	dst = appendStringOrNull(dst, "code", e.Code)
	if e.Reason != "" {
		dst = AppendStringField(dst, "reason", e.Reason)
	}
	return append(dst, "}}"...)
}

// AppendSSE appends the error as one SSE event, for a failure after the answer's header was sent.
// The stream's end marker, data: [DONE], is the caller's to send.
func (e *Error) AppendSSE(dst []byte) []byte {
	dst = append(dst, "data: "...)
	dst = e.AppendJSON(dst)
	return append(dst, "\n\n"...)
}

func appendStringOrNull(dst []byte, name, value string) []byte {
	if value == "" {
		return AppendMember(dst, name, null)
	}
	return AppendStringField(dst, name, value)
}
