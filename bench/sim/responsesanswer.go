package sim

import (
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fastjson"
)

// responsesFormat is the format of /v1/responses. One belongs to one request.
type responsesFormat struct {
	api        *responsesAPI
	request    *fastjson.Value
	items      [][]byte // inputs and outputs of the conversation
	stores     bool
	background bool
	holds      bool // text is held back until no call of a tool can follow
	begun      bool
	open       bool // the message is announced
	seq        int
	text       []byte
}

// object appends the response object.
func (f *responsesFormat) object(dst []byte, j *job, status, output string, p *progress) []byte {
	echo := func(name, otherwise string) {
		dst = append(append(append(dst, ',', '"'), name...), `":`...)
		if v := f.request.Get(name); v != nil {
			dst = v.MarshalTo(dst)
		} else {
			dst = append(dst, otherwise...)
		}
	}
	dst = appendJSONString(append(dst, `{"id":`...), j.id)
	dst = appendInt(append(dst, `,"object":"response","created_at":`...), int(j.born.Unix()))
	dst = appendJSONString(append(dst, `,"model":`...), j.model)
	dst = append(append(dst, `,"output":`...), output...)
	dst = append(append(append(dst, `,"status":"`...), status...), `","usage":`...)
	if p == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendInt(append(dst, `{"input_tokens":`...), len(j.reqs[0].prompt))
		dst = appendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), p.cached)
		dst = appendInt(append(dst, `,"cache_write_tokens":0},"output_tokens":`...), len(p.out))
		dst = appendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...), len(j.reqs[0].prompt)+len(p.out))
		dst = append(dst, '}')
	}
	echo("parallel_tool_calls", "true")
	echo("tool_choice", `"auto"`)
	echo("tools", "[]")
	dst = append(dst, `,"error":`...)
	switch status {
	case "failed":
		dst = appendJSONString(append(dst, `{"code":"server_error","message":`...), p.reason.message)
		dst = append(dst, `},"incomplete_details":null`...)
	case "incomplete":
		dst = append(dst, `null,"incomplete_details":{"reason":"max_output_tokens"}`...)
	default:
		dst = append(dst, `null,"incomplete_details":null`...)
	}
	echo("instructions", "null")
	echo("max_output_tokens", "null")
	echo("previous_response_id", "null")
	dst = append(dst, `,"reasoning":{"effort":null,"summary":null}`...)
	echo("store", "true")
	echo("metadata", "{}")
	return append(dst, '}')
}

// statusOf is _status_from_finish_reason.
func statusOf(f finishReason) string {
	switch f.kind {
	case "length":
		return "incomplete"
	case "abort":
		return "failed"
	}
	return "completed"
}

// finish appends the whole response object, and stores it.
func (f *responsesFormat) finish(dst []byte, j *job, p progress, text []byte) []byte {
	items, output := slices.Clip(f.items), "[]"
	if len(text) > 0 {
		output = "[" + string(appendMessageItem(nil, j, "completed", text)) + "]"
		items = append(items, []byte(output))
	}
	n := len(dst)
	dst = f.object(dst, j, statusOf(p.reason), output, &p)
	if f.stores {
		f.api.store.put(j.id, items, string(dst[n:]))
	}
	return dst
}

// appendMessageItem appends the answer's message; without a text it is the announced one.
func appendMessageItem(dst []byte, j *job, status string, text []byte) []byte {
	dst = append(append(dst, `{"id":"msg_`...), j.id[min(len(j.id), len("resp_")):]...)
	dst = append(dst, `","content":[`...)
	if text != nil {
		dst = append(appendPart(dst, text), ']')
	} else {
		dst = append(dst, ']')
	}
	dst = append(append(dst, `,"role":"assistant","status":"`...), status...)
	return append(dst, `","type":"message","phase":"final_answer"}`...)
}

func appendPart(dst, text []byte) []byte {
	dst = appendJSONString(append(dst, `{"annotations":[],"text":`...), text)
	return append(dst, `,"type":"output_text","logprobs":null}`...)
}

// event appends an event; data has its members behind the type.
func (f *responsesFormat) event(dst []byte, name string, data []byte) []byte {
	data = strconv.AppendInt(append(data, `,"sequence_number":`...), int64(f.seq), 10)
	f.seq++
	return appendEvent(dst, name, data)
}

// announce appends the events that SGLang sends before it computes anything.
func (f *responsesFormat) announce(dst []byte, j *job) []byte {
	if f.begun {
		return dst
	}
	f.begun = true
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = f.event(dst, name, f.object([]byte(`,"response":`), j, "in_progress", "[]", nil))
	}
	return dst
}

func (f *responsesFormat) whole(dst []byte, j *job, ps []progress) []byte {
	return f.finish(dst, j, ps[0], answerText(j.reqs[0], ps[0]))
}

func (f *responsesFormat) begin(dst []byte, j *job, _ int) []byte { return f.announce(dst, j) }

// place names the one item and its one part.
func place(j *job) []byte {
	data := append([]byte(`,"output_index":0,"item_id":"msg_`), j.id[min(len(j.id), len("resp_")):]...)
	return append(data, `","content_index":0`...)
}

func (f *responsesFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	text := newText(j.reqs[i], sent, p)
	f.text = append(f.text, text...)
	if f.holds {
		if text = nil; p.reason.kind != "" {
			text = f.text
		}
	}
	if len(text) == 0 {
		return dst
	}
	if !f.open {
		f.open = true
		dst = f.event(dst, "response.output_item.added", appendMessageItem([]byte(`,"output_index":0,"item":`), j, "in_progress", nil))
		dst = f.event(dst, "response.content_part.added", appendPart(append(place(j), `,"part":`...), nil))
	}
	return f.event(dst, "response.output_text.delta", append(appendJSONString(append(place(j), `,"delta":`...), text), `,"logprobs":[]`...))
}

func (*responsesFormat) reportsAborts() bool { return false }

func (f *responsesFormat) end(dst []byte, j *job, ps []progress) []byte {
	dst = f.announce(dst, j)
	if f.open {
		dst = f.event(dst, "response.output_text.done", append(appendJSONString(append(place(j), `,"text":`...), f.text), `,"logprobs":[]`...))
		dst = f.event(dst, "response.content_part.done", appendPart(append(place(j), `,"part":`...), f.text))
		dst = f.event(dst, "response.output_item.done", appendMessageItem([]byte(`,"output_index":0,"item":`), j, "completed", f.text))
	}
	return f.event(dst, "response."+statusOf(ps[0].reason), f.finish([]byte(`,"response":`), j, ps[0], f.text))
}

func (f *responsesFormat) failed(dst []byte, j *job, r finishReason) []byte {
	dst = f.announce(dst, j)
	return f.event(dst, "response.failed", f.object([]byte(`,"response":`), j, "failed", "[]", &progress{reason: r}))
}

func (*responsesFormat) refuse(ctx *fasthttp.RequestCtx, p *problem) { p.responses(ctx) }

// responses writes p in the format of /v1/responses.
func (p *problem) responses(ctx *fasthttp.RequestCtx) {
	kind := "invalid_request_error"
	if p.validation {
		kind = "Bad Request"
	}
	b := appendJSONString([]byte(`{"error":{"message":`), p.message)
	b = append(append(append(b, `,"type":"`...), kind...), `","param":`...)
	if p.param == "" {
		b = append(b, "null"...)
	} else {
		b = appendJSONString(b, p.param)
	}
	writeJSON(ctx, p.status, append(appendInt(append(b, `,"code":`...), p.status), "}}"...))
}
