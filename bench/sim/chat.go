package sim

import (
	"time"

	"github.com/valyala/fasthttp"
)

// chat serves /v1/chat/completions.
func (l *life) chat(ctx *fasthttp.RequestCtx) {
	j, err := l.chatJob(ctx)
	if err != nil {
		asProblem(err).openAI(ctx)
		return
	}
	l.answer(ctx, j, chatWording{})
}

func (l *life) chatJob(ctx *fasthttp.RequestCtx) (*job, error) {
	o, err := parseObject(ctx.PostBody())
	if err != nil {
		return nil, err
	}
	j, err := l.openAIJob(o, ctx)
	if err != nil {
		return nil, err
	}
	j.wantIDs = len(ctx.Request.Header.Peek("x-sglext-return-input-ids")) > 0
	prompt, err := chatPrompt(o)
	if err != nil {
		return nil, err
	}
	p, err := samplingOf(o)
	if err != nil {
		return nil, err
	}
	if p.max, err = o.number("max_completion_tokens", -1); err == nil && p.max < 0 {
		p.max, err = o.number("max_tokens", -1)
	}
	if err != nil {
		return nil, err
	}
	if limit := l.cfg.ContextLength; p.max > limit {
		return nil, refused("max_completion_tokens is too large: %d."+
			"This model supports at most %d completion tokens.", p.max, limit)
	}
	if j.logprobs, err = o.flag("logprobs"); err != nil {
		return nil, err
	}
	if j.top, err = o.number("top_logprobs", 0); err != nil {
		return nil, err
	}
	j.top = min(maxTop, max(0, j.top))
	j.n = p.n
	return j, l.finishOpenAI(j, o, [][]uint32{prompt}, p)
}

// chatPrompt is the prompt of a chat: input_ids if they are there, else the
// rendered messages.
func chatPrompt(o object) ([]uint32, error) {
	raw := o.raw("messages")
	if raw == nil {
		return nil, invalid("missing", "messages", "Field required")
	}
	if ids := o.raw("input_ids"); ids != nil {
		if ids[0] != '[' {
			return nil, invalid("list_type", "input_ids", "Input should be a valid list")
		}
		prompt, _, err := parseIDs(ids, "input_ids")
		return prompt, err
	}
	text, err := render(o)
	if err != nil {
		return nil, err
	}
	return encode(text), nil
}

// openAIJob reads the fields that both OpenAI endpoints have.
func (l *life) openAIJob(o object, ctx *fasthttp.RequestCtx) (j *job, err error) {
	j = &job{born: time.Now()}
	if j.model, err = o.text("model", "default"); err != nil {
		return nil, err
	}
	l.meets(j.model)
	if j.stream, err = o.flag("stream"); err != nil {
		return nil, err
	}
	if raw := o.raw("stream_options"); raw != nil {
		options, err := parseObject(raw)
		if err != nil {
			return nil, invalid("dict_type", "stream_options", "Input should be a valid dictionary")
		}
		if j.usage, err = options.flag("include_usage"); err != nil {
			return nil, err
		}
		if j.every, err = options.flag("continuous_usage_stats"); err != nil {
			return nil, err
		}
	}
	if j.rank, err = l.pickRank(o, ctx.Request.Header.Peek("X-Data-Parallel-Rank")); err != nil {
		return nil, err
	}
	j.pair, err = l.pairingOf(o, &ctx.Request.Header)
	return j, err
}

// finishOpenAI builds a job's sequences. The answer's id is that of the first.
func (l *life) finishOpenAI(j *job, o object, prompts [][]uint32, p sampling) error {
	ids, err := o.texts("rid")
	if err != nil {
		return err
	}
	s, err := spaceOf(o)
	if err != nil {
		return err
	}
	if err := l.build(j, prompts, ids, s, []sampling{p}); err != nil {
		return err
	}
	j.id = j.reqs[0].id
	return nil
}

// chatWording words answers as /v1/chat/completions does.
type chatWording struct{}

func (chatWording) whole(dst []byte, j *job, ps []progress) []byte {
	dst = appendHead(dst, j, j.id, "chat.completion")
	for i, p := range ps {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = appendInt(dst, i)
		dst = append(dst, `,"message":{"role":"assistant","content":`...)
		dst = appendJSONString(dst, answerText(j.reqs[i], p))
		dst = append(dst, `,"reasoning_content":null}`...)
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

func (chatWording) begin(dst []byte, j *job, i int) []byte {
	dst = appendDelta(dst, j, i)
	dst = append(dst, `,"role":"assistant","content":""}`...)
	return append(appendReason(dst, logged{}, finish{}), "}]}\n\n"...)
}

// chunk brings the new text, and in an event of its own why the answer ended.
func (chatWording) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	if text := newText(j.reqs[i], sent, p); len(text) > 0 {
		dst = appendDelta(dst, j, i)
		dst = append(dst, `,"content":`...)
		dst = append(appendJSONString(dst, text), '}')
		dst = append(appendReason(dst, j.logged(i, sent, p, true), finish{}), "}]"...)
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
	return append(appendReason(dst, logged{}, p.reason), "}]}\n\n"...)
}

func (chatWording) tellsAborts() bool { return false }

func (chatWording) end(dst []byte, j *job, ps []progress) []byte {
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
	return dst
}

// appendDelta begins an event of sequence i, up to its delta's first field.
func appendDelta(dst []byte, j *job, i int) []byte {
	dst = append(dst, "data: "...)
	dst = appendHead(dst, j, j.reqs[i].id, "chat.completion.chunk")
	dst = append(dst, `{"index":`...)
	dst = appendInt(dst, i)
	return append(dst, `,"delta":{"reasoning_content":null`...)
}
