package sim

// completionsDefault is OpenAI's default length of a completion.
const completionsDefault = 16

// completionPrompts reads the prompt: a text, texts, ids or lists of ids.
func completionPrompts(o *object) (prompts [][]uint32, batch bool) {
	raw := o.raw("prompt")
	if raw == nil {
		o.fail(invalid("missing", "prompt", "Field required"))
		return nil, false
	}
	if raw[0] == '[' {
		switch rest := skipSpace(raw[1:]); {
		case len(rest) > 0 && rest[0] == ']':
			o.fail(refused("Prompt cannot be empty"))
		case len(rest) > 0 && rest[0] != '"':
			return o.idLists("prompt")
		}
	}
	return o.prompts("prompt"), raw[0] == '['
}

// completionFormat is the format of /v1/completions.
type completionFormat struct{ openAIErrors }

func (completionFormat) whole(dst []byte, j *job, ps []progress) []byte {
	dst = appendHead(dst, j, j.id, "text_completion")
	for i, p := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		text := append(j.echoed(i), answerText(j.reqs[i], p)...)
		dst = appendChoice(dst, i, text, j.logged(i, 0, p, false), p.reason)
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, j, ps, true)
	return append(appendMetadata(dst, ps), '}')
}

func (completionFormat) begin(dst []byte, _ *job, _ int) []byte { return dst }

// chunk also sends the prompt with the first token, if the client has asked for echo.
func (completionFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	var usage []progress
	if j.every {
		usage = []progress{p}
	}
	text := newText(j.reqs[i], sent, p)
	if sent == 0 {
		text = append(j.echoed(i), text...)
	}
	return appendCompletion(dst, j, i, text, j.logged(i, sent, p, false), p.reason, usage)
}

func (completionFormat) reportsAborts() bool { return false }

func (completionFormat) end(dst []byte, j *job, ps []progress) []byte {
	if !j.usage {
		return append(dst, doneEvent...)
	}
	dst = append(dst, "data: "...)
	dst = appendHead(dst, j, j.id, "text_completion")
	dst = append(dst, `],"usage":`...)
	dst = append(appendUsage(dst, j, ps, false), "}\n\n"...)
	return append(dst, doneEvent...)
}

// appendCompletion appends one event; usage may be empty.
func appendCompletion(dst []byte, j *job, i int, text []byte, g choiceLogprobs, f finishReason, usage []progress) []byte {
	dst = append(dst, "data: "...)
	dst = appendHead(dst, j, j.reqs[i].id, "text_completion")
	dst = appendChoice(dst, i, text, g, f)
	dst = append(dst, `],"usage":`...)
	if len(usage) == 0 {
		return append(dst, "null}\n\n"...)
	}
	return append(appendUsage(dst, j, usage, false), "}\n\n"...)
}

func appendChoice(dst []byte, i int, text []byte, g choiceLogprobs, f finishReason) []byte {
	dst = append(dst, `{"index":`...)
	dst = appendInt(dst, i)
	dst = append(dst, `,"text":`...)
	dst = appendJSONString(dst, text)
	return append(appendReason(dst, g, f), '}')
}
