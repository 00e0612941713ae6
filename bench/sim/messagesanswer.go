package sim

import "github.com/valyala/fasthttp"

// messagesFormat is the format of /v1/messages.
type messagesFormat struct {
	open bool // a content block of the stream is open
}

// appendMessage begins a message, up to its content.
func appendMessage(dst []byte, j *job) []byte {
	dst = append(dst, `{"id":"msg_`...)
	dst = append(dst, j.id...)
	return append(dst, `","type":"message","role":"assistant","content":[`...)
}

// appendInput appends the usage of the prompt, which is split by the cache. SGLang leaves out a
// zero.
func appendInput(dst []byte, j *job, p progress, output int) []byte {
	dst = append(dst, `"usage":{"input_tokens":`...)
	dst = appendInt(dst, len(j.reqs[0].prompt)-p.cached)
	dst = append(dst, `,"output_tokens":`...)
	dst = appendInt(dst, output)
	if p.cached > 0 {
		dst = append(dst, `,"cache_read_input_tokens":`...)
		dst = appendInt(dst, p.cached)
	}
	return append(dst, '}')
}

// stopReason is STOP_REASON_MAP.
func stopReason(f finishReason) string {
	if f.kind == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func (*messagesFormat) whole(dst []byte, j *job, ps []progress) []byte {
	p := ps[0]
	dst = appendMessage(dst, j)
	dst = append(dst, `{"type":"text","text":`...)
	dst = appendJSONString(dst, answerText(j.reqs[0], p))
	dst = append(dst, `}],"model":`...)
	dst = appendJSONString(dst, j.model)
	dst = append(dst, `,"stop_reason":"`...)
	dst = append(dst, stopReason(p.reason)...)
	dst = append(dst, `",`...)
	return append(appendInput(dst, j, p, len(p.out)), '}')
}

// appendEvent appends an event; data has its members behind the type.
func appendEvent(dst []byte, name string, data []byte) []byte {
	dst = append(append(dst, "event: "...), name...)
	dst = append(append(dst, "\ndata: {\"type\":\""...), name...)
	dst = append(append(dst, '"'), data...)
	return append(dst, "}\n\n"...)
}

func (*messagesFormat) begin(dst []byte, j *job, i int) []byte {
	data := appendMessage([]byte(`,"message":`), j)
	data = append(data, `],"model":`...)
	data = append(appendJSONString(data, j.model), ',')
	return appendEvent(dst, "message_start", append(appendInput(data, j, j.reqs[i].current(), 0), '}'))
}

func (f *messagesFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	text := newText(j.reqs[i], sent, p)
	if len(text) == 0 {
		return dst
	}
	if !f.open {
		f.open = true
		dst = appendEvent(dst, "content_block_start", []byte(`,"index":0,"content_block":{"type":"text","text":""}`))
	}
	delta := appendJSONString([]byte(`,"index":0,"delta":{"type":"text_delta","text":`), text)
	return appendEvent(dst, "content_block_delta", append(delta, '}'))
}

func (*messagesFormat) reportsAborts() bool { return false }

func (f *messagesFormat) end(dst []byte, _ *job, ps []progress) []byte {
	if f.open {
		dst = appendEvent(dst, "content_block_stop", []byte(`,"index":0`))
	}
	data := append([]byte(`,"delta":{"stop_reason":"`), stopReason(ps[0].reason)...)
	data = append(data, `"},"usage":{"output_tokens":`...)
	dst = appendEvent(dst, "message_delta", append(appendInt(data, len(ps[0].out)), '}'))
	return appendEvent(dst, "message_stop", nil)
}

// failed ends the stream with an error, as _flush_on_error does.
func (f *messagesFormat) failed(dst []byte, j *job, r finishReason) []byte {
	if !f.open {
		data := appendMessage([]byte(`,"message":`), j)
		data = append(appendJSONString(append(data, `],"model":`...), j.model), `,"usage":{"input_tokens":0,"output_tokens":0}}`...)
		dst = appendEvent(dst, "message_start", data)
	} else {
		dst = appendEvent(dst, "content_block_stop", []byte(`,"index":0`))
	}
	data := append([]byte(`,"error":{"type":"`), anthropicType(r.status)...)
	data = append(appendJSONString(append(data, `","message":`...), r.message), '}')
	return appendEvent(appendEvent(dst, "error", data), "message_stop", nil)
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
	b := append([]byte(`{"type":"error","error":{"type":"`), anthropicType(p.status)...)
	b = append(appendJSONString(append(b, `","message":`...), message), "}}"...)
	writeJSON(ctx, p.status, b)
}
