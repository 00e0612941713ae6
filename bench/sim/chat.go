package sim

import "fmt"

// chatPrompt returns the prompt of a chat: input_ids if present, otherwise the rendered messages.
func chatPrompt(o *object) []uint32 {
	if o.raw("messages") == nil {
		o.fail(invalid("missing", "messages", "Field required"))
		return nil
	}
	if o.raw("input_ids") != nil {
		return o.ids("input_ids")
	}
	return encode(renderChat(o))
}

// chatFormat is the format of /v1/chat/completions.
type chatFormat struct{ openAIErrors }

func (chatFormat) whole(dst []byte, j *job, ps []progress) []byte {
	dst = appendHead(dst, j, j.id, "chat.completion")
	for i, p := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"index":%d,"message":{"role":"assistant","content":%s,"reasoning_content":null}`, i, quoted(answerText(j.reqs[i], p)))
		dst = append(appendReason(dst, j.logged(i, 0, p, true), p.reason), '}')
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, j, ps, true)
	dst = appendMetadata(dst, ps)
	if j.wantIDs {
		dst = append(dst, `,"sglext":`...)
		dst = appendInputIDs(dst, j)
	}
	return append(dst, '}')
}

func (chatFormat) begin(dst []byte, j *job, i int) []byte {
	dst = appendDelta(dst, j, i)
	dst = append(dst, `,"role":"assistant","content":""}`...)
	return append(appendReason(dst, choiceLogprobs{}, finishReason{}), "}]}\n\n"...)
}

// chunk appends the new text, and the finish reason in an event of its own.
func (chatFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	if text := newText(j.reqs[i], sent, p); len(text) > 0 {
		dst = appendDelta(dst, j, i)
		dst = append(dst, `,"content":`...)
		dst = append(appendJSONString(dst, text), '}')
		dst = append(appendReason(dst, j.logged(i, sent, p, true), finishReason{}), "}]"...)
		if j.every {
			dst = append(dst, `,"usage":`...)
			dst = appendUsage(dst, j, []progress{p}, true)
		}
		dst = append(dst, "}\n\n"...)
	}
	if p.reason.kind == "" {
		return dst
	}
	dst = append(appendDelta(dst, j, i), '}')
	return append(appendReason(dst, choiceLogprobs{}, p.reason), "}]}\n\n"...)
}

func (chatFormat) reportsAborts() bool { return false }

func (chatFormat) end(dst []byte, j *job, ps []progress) []byte {
	if j.wantIDs {
		dst = append(dst, "data: "...)
		dst = appendHead(dst, j, j.id, "chat.completion.chunk")
		dst = append(dst, `],"usage":null,"sglext":`...)
		dst = append(appendInputIDs(dst, j), "}\n\n"...)
	}
	if j.usage {
		dst = append(dst, "data: "...)
		dst = appendHead(dst, j, j.id, "chat.completion.chunk")
		dst = append(dst, `],"usage":`...)
		dst = append(appendUsage(dst, j, ps, true), "}\n\n"...)
	}
	return append(dst, doneEvent...)
}

// appendDelta begins an event of sequence i, up to its delta's first field.
func appendDelta(dst []byte, j *job, i int) []byte {
	dst = append(dst, "data: "...)
	dst = appendHead(dst, j, j.reqs[i].id, "chat.completion.chunk")
	dst = append(dst, `{"index":`...)
	dst = appendInt(dst, i)
	return append(dst, `,"delta":{"reasoning_content":null`...)
}
