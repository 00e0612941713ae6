package anthropic

import (
	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// typeOf returns the type of an error: SGLang's ERROR_TYPE_MAP, with the types that Anthropic's
// clients know for the statuses of the router.
func typeOf(status int) string {
	switch status {
	case fasthttp.StatusUnauthorized:
		return "authentication_error"
	case fasthttp.StatusForbidden:
		return "permission_error"
	case fasthttp.StatusNotFound:
		return "not_found_error"
	case fasthttp.StatusRequestTimeout:
		return "request_timeout_error"
	case fasthttp.StatusRequestEntityTooLarge:
		return "request_too_large"
	case fasthttp.StatusTooManyRequests:
		return "rate_limit_error"
	case fasthttp.StatusServiceUnavailable:
		return "overloaded_error"
	case fasthttp.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status < fasthttp.StatusInternalServerError {
		return "invalid_request_error"
	}
	return "api_error"
}

// AppendError appends {"type":"error","error":{"type","message"}}, and the reason if there is one.
func AppendError(dst []byte, e *openai.Error) []byte {
	dst = openai.AppendStringField(append(dst, `{"type":"error","error":{`...), "type", typeOf(e.Status))
	dst = openai.AppendStringField(dst, "message", e.Error())
	if e.Reason != "" {
		dst = openai.AppendStringField(dst, "reason", e.Reason)
	}
	return append(dst, "}}"...)
}

// AppendErrorEvents appends the events that end a stream after an error, as SGLang sends them.
func AppendErrorEvents(dst []byte, e *openai.Error) []byte {
	dst = append(dst, "event: error\ndata: "...)
	dst = AppendError(dst, e)
	return append(dst, "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}
