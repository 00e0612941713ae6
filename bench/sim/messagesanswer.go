package sim

import (
	"fmt"

	"github.com/valyala/fasthttp"
)

// messagesFormat is the format of /v1/messages.
type messagesFormat struct {
	open bool // a content block of the stream is open
}

// head begins a message, up to its content.
func (*messagesFormat) head(j *job) string {
	return `{"id":"msg_` + j.id + `","type":"message","role":"assistant","content":[`
}

// usage is that of the prompt, which is split by the cache. SGLang leaves out a zero.
func (*messagesFormat) usage(j *job, p progress, output int) string {
	cached := ""
	if p.cached > 0 {
		cached = fmt.Sprintf(`,"cache_read_input_tokens":%d`, p.cached)
	}
	return fmt.Sprintf(`"usage":{"input_tokens":%d,"output_tokens":%d%s}`, len(j.reqs[0].prompt)-p.cached, output, cached)
}

// stopReason is STOP_REASON_MAP.
func stopReason(f finishReason) string {
	if f.kind == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func (f *messagesFormat) whole(dst []byte, j *job, ps []progress) []byte {
	p := ps[0]
	return fmt.Appendf(dst, `%s{"type":"text","text":%s}],"model":%s,"stop_reason":"%s",%s}`,
		f.head(j), quoted(answerText(j.reqs[0], p)), quoted(j.model), stopReason(p.reason), f.usage(j, p, len(p.out)))
}

// appendEvent appends an event; data has its members behind the type.
func appendEvent(dst []byte, name, data string) []byte {
	return fmt.Appendf(dst, "event: %s\ndata: {\"type\":\"%s\"%s}\n\n", name, name, data)
}

func (f *messagesFormat) begin(dst []byte, j *job, i int) []byte {
	return appendEvent(dst, "message_start", fmt.Sprintf(`,"message":%s],"model":%s,%s}`, f.head(j), quoted(j.model), f.usage(j, j.reqs[i].current(), 0)))
}

func (f *messagesFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	text := newText(j.reqs[i], sent, p)
	if len(text) == 0 {
		return dst
	}
	if !f.open {
		f.open = true
		dst = appendEvent(dst, "content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	}
	return appendEvent(dst, "content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%s}`, quoted(text)))
}

func (*messagesFormat) reportsAborts() bool { return false }

func (f *messagesFormat) end(dst []byte, _ *job, ps []progress) []byte {
	if f.open {
		dst = appendEvent(dst, "content_block_stop", `,"index":0`)
	}
	dst = appendEvent(dst, "message_delta", fmt.Sprintf(`,"delta":{"stop_reason":"%s"},"usage":{"output_tokens":%d}`, stopReason(ps[0].reason), len(ps[0].out)))
	return appendEvent(dst, "message_stop", "")
}

// failed ends the stream with an error, as _flush_on_error does.
func (f *messagesFormat) failed(dst []byte, j *job, r finishReason) []byte {
	if !f.open {
		dst = appendEvent(dst, "message_start", fmt.Sprintf(`,"message":%s],"model":%s,"usage":{"input_tokens":0,"output_tokens":0}}`, f.head(j), quoted(j.model)))
	} else {
		dst = appendEvent(dst, "content_block_stop", `,"index":0`)
	}
	dst = appendEvent(dst, "error", fmt.Sprintf(`,"error":{"type":"%s","message":%s}`, anthropicType(r.status), quoted(r.message)))
	return appendEvent(dst, "message_stop", "")
}

func (*messagesFormat) refuse(ctx *fasthttp.RequestCtx, p *problem) { p.anthropic(ctx) }

// anthropicType is ERROR_TYPE_MAP.
func anthropicType(status int) string {
	switch status {
	case fasthttp.StatusBadRequest:
		return "invalid_request_error"
	case fasthttp.StatusTooManyRequests:
		return "rate_limit_error"
	case fasthttp.StatusServiceUnavailable:
		return "overloaded_error"
	}
	return "api_error"
}

// anthropic writes p in the format of /v1/messages.
func (p *problem) anthropic(ctx *fasthttp.RequestCtx) {
	message := p.message
	if p.status >= fasthttp.StatusInternalServerError {
		message = "Internal server error"
	}
	writeJSON(ctx, p.status, fmt.Appendf(nil, `{"type":"error","error":{"type":"%s","message":%s}}`, anthropicType(p.status), quoted(message)))
}
