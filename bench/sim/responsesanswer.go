package sim

import (
	"fmt"
	"slices"

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
	echo := func(name, otherwise string) string {
		if v := f.request.Get(name); v != nil {
			return v.String()
		}
		return otherwise
	}
	usage, failed := "null", "null"
	if p != nil {
		usage = fmt.Sprintf(`{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":0},"output_tokens":%d,`+
			`"output_tokens_details":{"reasoning_tokens":0},"total_tokens":%d}`,
			len(j.reqs[0].prompt), p.cached, len(p.out), len(j.reqs[0].prompt)+len(p.out))
	}
	incomplete := "null"
	switch status {
	case "failed":
		failed = fmt.Sprintf(`{"code":"server_error","message":%s}`, quoted(p.reason.message))
	case "incomplete":
		incomplete = `{"reason":"max_output_tokens"}`
	}
	return fmt.Appendf(dst, `{"id":%s,"object":"response","created_at":%d,"model":%s,"output":%s,"status":"%s","usage":%s,"parallel_tool_calls":%s,`+
		`"tool_choice":%s,"tools":%s,"error":%s,"incomplete_details":%s,"instructions":%s,"max_output_tokens":%s,"previous_response_id":%s,`+
		`"reasoning":{"effort":null,"summary":null},"store":%s,"metadata":%s}`,
		quoted(j.id), j.born.Unix(), quoted(j.model), output, status, usage, echo("parallel_tool_calls", "true"), echo("tool_choice", `"auto"`),
		echo("tools", "[]"), failed, incomplete, echo("instructions", "null"), echo("max_output_tokens", "null"), echo("previous_response_id", "null"),
		echo("store", "true"), echo("metadata", "{}"))
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
		output = "[" + messageItem(j, "completed", text) + "]"
		items = append(items, []byte(output))
	}
	n := len(dst)
	dst = f.object(dst, j, statusOf(p.reason), output, &p)
	if f.stores {
		f.api.store.put(j.id, items, string(dst[n:]))
	}
	return dst
}

// messageItem is the answer's message; without a text it is the announced one.
func messageItem(j *job, status string, text []byte) string {
	part := ""
	if text != nil {
		part = textPart(text)
	}
	return fmt.Sprintf(`{"id":"msg_%s","content":[%s],"role":"assistant","status":"%s","type":"message","phase":"final_answer"}`, afterPrefix(j.id), part, status)
}

// afterPrefix is the part of a response's id that its message has, too.
func afterPrefix(id string) string { return id[min(len(id), len("resp_")):] }

func textPart(text []byte) string {
	return fmt.Sprintf(`{"annotations":[],"text":%s,"type":"output_text","logprobs":null}`, quoted(text))
}

// event appends an event; data has its members behind the type.
func (f *responsesFormat) event(dst []byte, name, data string) []byte {
	dst = appendEvent(dst, name, fmt.Sprintf(`%s,"sequence_number":%d`, data, f.seq))
	f.seq++
	return dst
}

// announce appends the events that SGLang sends before it computes anything.
func (f *responsesFormat) announce(dst []byte, j *job) []byte {
	if f.begun {
		return dst
	}
	f.begun = true
	for _, name := range [...]string{"response.created", "response.in_progress"} {
		dst = f.event(dst, name, string(f.object([]byte(`,"response":`), j, "in_progress", "[]", nil)))
	}
	return dst
}

func (f *responsesFormat) whole(dst []byte, j *job, ps []progress) []byte {
	return f.finish(dst, j, ps[0], answerText(j.reqs[0], ps[0]))
}

func (f *responsesFormat) begin(dst []byte, j *job, _ int) []byte { return f.announce(dst, j) }

// place names the one item and its one part.
func place(j *job) string {
	return `,"output_index":0,"item_id":"msg_` + afterPrefix(j.id) + `","content_index":0`
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
		dst = f.event(dst, "response.output_item.added", `,"output_index":0,"item":`+messageItem(j, "in_progress", nil))
		dst = f.event(dst, "response.content_part.added", place(j)+`,"part":`+textPart(nil))
	}
	return f.event(dst, "response.output_text.delta", fmt.Sprintf(`%s,"delta":%s,"logprobs":[]`, place(j), quoted(text)))
}

func (*responsesFormat) reportsAborts() bool { return false }

func (f *responsesFormat) end(dst []byte, j *job, ps []progress) []byte {
	dst = f.announce(dst, j)
	if f.open {
		dst = f.event(dst, "response.output_text.done", fmt.Sprintf(`%s,"text":%s,"logprobs":[]`, place(j), quoted(f.text)))
		dst = f.event(dst, "response.content_part.done", place(j)+`,"part":`+textPart(f.text))
		dst = f.event(dst, "response.output_item.done", `,"output_index":0,"item":`+messageItem(j, "completed", f.text))
	}
	return f.event(dst, "response."+statusOf(ps[0].reason), string(f.finish([]byte(`,"response":`), j, ps[0], f.text)))
}

func (f *responsesFormat) failed(dst []byte, j *job, r finishReason) []byte {
	dst = f.announce(dst, j)
	return f.event(dst, "response.failed", string(f.object([]byte(`,"response":`), j, "failed", "[]", &progress{reason: r})))
}

func (*responsesFormat) refuse(ctx *fasthttp.RequestCtx, p *problem) { p.responses(ctx) }

// responses writes p in the format of /v1/responses.
func (p *problem) responses(ctx *fasthttp.RequestCtx) {
	kind := "invalid_request_error"
	if p.validation {
		kind = "Bad Request"
	}
	writeJSON(ctx, p.status, fmt.Appendf(nil, `{"error":{"message":%s,"type":"%s","param":%s,"code":%d}}`, quoted(p.message), kind, nullable(p.param), p.status))
}
