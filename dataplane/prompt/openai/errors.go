package openai

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

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

// BadRequest is a 400 for a body that cannot be routed.
func BadRequest(param, message string) *Error {
	return &Error{Status: fasthttp.StatusBadRequest, Type: typeInvalid, Message: message, Param: param}
}

// ModelNotFound is OpenAI's answer for a model that no worker serves.
func ModelNotFound(model string) *Error {
	return &Error{
		Status: fasthttp.StatusNotFound, Type: typeInvalid, Param: "model", Code: "model_not_found",
		Message: "The model " + strconv.Quote(model) + " does not exist or no worker serves it.",
	}
}

// NotFound is for a path that is not served.
func NotFound(path string) *Error {
	return &Error{
		Status: fasthttp.StatusNotFound, Type: typeNotFound, Code: "not_found",
		Message: "Nothing is served at " + path + ".",
	}
}

// TooLarge is for a body above limit bytes.
func TooLarge(limit int) *Error {
	return &Error{
		Status: fasthttp.StatusRequestEntityTooLarge, Type: typeInvalid, Code: "request_too_large",
		Message: "The request's body is larger than " + strconv.Itoa(limit) + " bytes.",
	}
}

// UnknownCoding is for a body that is compressed in a way that is not read.
func UnknownCoding(coding string) *Error {
	return &Error{
		Status: fasthttp.StatusUnsupportedMediaType, Type: typeInvalid, Code: "unsupported_content_encoding",
		Message: "The body has the Content-Encoding " + strconv.Quote(coding) + ", which is not read here: send it as it is, or compressed once with gzip or zstd.",
	}
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
	return &Error{
		Status: fasthttp.StatusUnauthorized, Type: typeAuth, Code: "invalid_api_key",
		Message: "No valid API key was given.",
	}
}

// Forbidden is for a request that is not within the rights of its API key.
func Forbidden(param, message string) *Error {
	return &Error{
		Status: fasthttp.StatusForbidden, Type: typePermission, Message: message, Param: param, Code: "permission_denied",
	}
}

// ModelForbidden is for a model that the API key may not use.
func ModelForbidden(model string) *Error {
	return Forbidden("model", "This API key may not use the model "+strconv.Quote(model)+".")
}

// RateLimited is for a client, or a queue, above its limit: the client may try again later.
func RateLimited(message string) *Error {
	return &Error{
		Status: fasthttp.StatusTooManyRequests, Type: typeRateLimit, Message: message,
		Code: "rate_limit_exceeded",
	}
}

// Overloaded is for a cluster that cannot take the request now.
func Overloaded(message string) *Error {
	return &Error{
		Status: fasthttp.StatusServiceUnavailable, Type: typeOverloaded, Message: message, Code: "overloaded",
	}
}

// NoWorker is for a model without a fit worker.
func NoWorker(model string) *Error {
	message := "No worker can take the request now."
	if model != "" {
		message = "No worker can take a request for the model " + strconv.Quote(model) + " now."
	}
	return &Error{Status: fasthttp.StatusServiceUnavailable, Type: typeOverloaded, Code: "no_worker", Message: message}
}

// Upstream is for a worker that failed before or during its answer.
func Upstream(message string) *Error {
	return &Error{Status: fasthttp.StatusBadGateway, Type: typeUpstream, Message: message, Code: "upstream_error"}
}

// UpstreamTimeout is for a worker that did not answer in time.
func UpstreamTimeout(message string) *Error {
	return &Error{
		Status: fasthttp.StatusGatewayTimeout, Type: typeTimeout, Message: message, Code: "upstream_timeout",
	}
}

// Internal is for a fault of our own; the message must not carry internals to the client.
func Internal(message string) *Error {
	return &Error{
		Status: fasthttp.StatusInternalServerError, Type: "internal_error", Message: message, Code: "internal_error",
	}
}

// AppendJSON appends {"error":{"message","type","param","code"}}, and the reason if there is one.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendStringOrNull(dst, e.Code)
	if e.Reason != "" {
		dst = append(dst, `,"reason":`...)
		dst = appendString(dst, e.Reason)
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

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// appendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, since messages quote
// fields of clients.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
		i++
	}
	return append(dst, '"')
}
