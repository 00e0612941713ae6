package sim

// completionsDefault is OpenAI's default length of a completion.
const completionsDefault = 16

// completionPrompts reads prompt: a text, texts, ids or lists of ids.
func completionPrompts(o object) (prompts [][]uint32, batch bool, err error) {
	raw := o.raw("prompt")
	if raw == nil {
		return nil, false, invalid("missing", "prompt", "Field required")
	}
	if raw[0] == '[' {
		switch rest := space0(raw[1:]); {
		case len(rest) > 0 && rest[0] == ']':
			return nil, false, refused("Prompt cannot be empty")
		case len(rest) > 0 && rest[0] != '"':
			return idLists(raw, "prompt")
		}
	}
	texts, err := o.texts("prompt")
	for _, t := range texts {
		prompts = append(prompts, encode([]byte(t)))
	}
	return prompts, raw[0] == '[', err
}

// completionWording words answers as /v1/completions does.
type completionWording struct{}

func (completionWording) whole(dst []byte, j *job, ps []progress) []byte {
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

func (completionWording) begin(dst []byte, _ *job, _ int) []byte { return dst }

// chunk of a first token brings the prompt with it, if the client wants it back.
func (completionWording) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
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

func (completionWording) tellsAborts() bool { return false }

func (completionWording) end(dst []byte, j *job, ps []progress) []byte {
	if !j.usage {
		return dst
	}
	dst = append(dst, "data: "...)
	dst = appendHead(dst, j, j.id, "text_completion")
	dst = append(dst, `],"usage":`...)
	return append(appendUsage(dst, j, ps, false), "}\n\n"...)
}

// appendCompletion appends one event; usage is null unless some is given.
func appendCompletion(dst []byte, j *job, i int, text []byte, g logged, f finish, usage []progress) []byte {
	dst = append(dst, "data: "...)
	dst = appendHead(dst, j, j.reqs[i].id, "text_completion")
	dst = appendChoice(dst, i, text, g, f)
	dst = append(dst, `],"usage":`...)
	if len(usage) == 0 {
		return append(dst, "null}\n\n"...)
	}
	return append(appendUsage(dst, j, usage, false), "}\n\n"...)
}

func appendChoice(dst []byte, i int, text []byte, g logged, f finish) []byte {
	dst = append(dst, `{"index":`...)
	dst = appendInt(dst, i)
	dst = append(dst, `,"text":`...)
	dst = appendJSONString(dst, text)
	return append(appendReason(dst, g, f), '}')
}
