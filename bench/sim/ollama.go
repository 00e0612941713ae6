package sim

import (
	"fmt"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/prompt/ollama"
)

// ollamaJob reads a body of Ollama's API: as in SGLang, it becomes a chat or a body of /generate.
// Without a prompt there is nothing to compute, and no job.
func (b *jobReader) ollamaJob(ctx *fasthttp.RequestCtx, chat bool) (*job, error) {
	var (
		body  []byte
		empty bool
		err   error
	)
	if chat {
		body, err = ollama.AppendChat(nil, ctx.PostBody())
	} else {
		body, empty, err = ollama.AppendGenerate(nil, ctx.PostBody())
	}
	if err != nil {
		return nil, errJSON
	}
	o := parseObject(body)
	j := b.openAIJob(o, ctx)
	j.model, j.n = b.loaded.Load().name, 1
	if empty {
		return nil, o.err
	}
	if !chat {
		prompts, _ := generatePrompts(o)
		return b.finish(j, o, prompts, generateSampling(o)...)
	}
	p := parseSampling(o)
	p.max = o.number("max_tokens", -1)
	return b.finish(j, o, [][]uint32{chatPrompt(o)}, p)
}

// ollama serves /api/chat and /api/generate.
func (s *httpServer) ollama(ctx *fasthttp.RequestCtx) {
	f := ollamaFormat{chat: string(ctx.Path()) == "/api/chat"}
	switch j, err := s.jobs.ollamaJob(ctx, f.chat); {
	case err != nil:
		f.refuse(ctx, asProblem(err))
	case j == nil:
		ctx.SetContentType(lineStream)
		ctx.SetBody(f.line(nil, s.loaded.Load().name, nil, true))
	default:
		s.answers.answer(ctx, j, f)
	}
}

const lineStream = "application/x-ndjson"

// ollamaFormat is the format of /api/chat, or of /api/generate.
type ollamaFormat struct{ chat bool }

// head appends an answer or a line up to its end, without the brace.
func (f ollamaFormat) head(dst []byte, model string, text []byte, done bool) []byte {
	dst = fmt.Appendf(dst, `{"model":%s,"created_at":"%s",`, quoted(model), time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	if f.chat {
		dst = append(appendJSONString(append(dst, `"message":{"role":"assistant","content":`...), text), `,"images":null}`...)
	} else {
		dst = appendJSONString(append(dst, `"response":`...), text)
	}
	if done {
		return append(dst, `,"done":true,"done_reason":"stop"`...)
	}
	return append(dst, `,"done":false,"done_reason":null`...)
}

func (f ollamaFormat) line(dst []byte, model string, text []byte, done bool) []byte {
	return append(f.head(dst, model, text, done), "}\n"...)
}

func (f ollamaFormat) whole(dst []byte, j *job, ps []progress) []byte {
	dst = f.head(dst, j.model, answerText(j.reqs[0], ps[0]), true)
	return fmt.Appendf(dst, `,"total_duration":%d,"load_duration":null,"prompt_eval_count":%d,"prompt_eval_duration":null,"eval_count":%d,"eval_duration":null}`,
		time.Since(j.born).Nanoseconds(), len(j.reqs[0].prompt), len(ps[0].out))
}

func (ollamaFormat) begin(dst []byte, _ *job, _ int) []byte { return dst }

// chunk appends a line. SGLang's last one has no text, also where there is some.
func (f ollamaFormat) chunk(dst []byte, j *job, i, sent int, p progress) []byte {
	if p.reason.kind != "" {
		return f.line(dst, j.model, nil, true)
	}
	return f.line(dst, j.model, newText(j.reqs[i], sent, p), false)
}

func (ollamaFormat) reportsAborts() bool { return false }

func (ollamaFormat) end(dst []byte, _ *job, _ []progress) []byte { return dst }

// failed appends nothing: SGLang raises behind the header, and the stream lacks its end.
func (ollamaFormat) failed(dst []byte, _ *job, _ finishReason) []byte { return dst }

// refuse writes an error as SGLang does: the engine's words are lost.
func (ollamaFormat) refuse(ctx *fasthttp.RequestCtx, p *problem) {
	if p.validation {
		p.openAI(ctx)
		return
	}
	ctx.Error("Internal Server Error", fasthttp.StatusInternalServerError)
}

// show serves /api/show.
func (a *infoAPI) show(ctx *fasthttp.RequestCtx) {
	o := parseObject(ctx.PostBody())
	model := o.text("model", "")
	if model == "" {
		o.fail(invalid("missing", "model", "Field required"))
	}
	if o.err != nil {
		asProblem(o.err).openAI(ctx)
		return
	}
	window := fmt.Sprintf("num_ctx %d", a.cfg.ContextLength)
	writeJSON(ctx, fasthttp.StatusOK, fmt.Appendf(nil,
		`{"license":"","modelfile":%s,"parameters":%q,"template":"","details":{"parent_model":"","format":"sglang","family":%[3]s},`+
			`"model_info":{"general.architecture":%[3]s,%[4]s:%[5]d},"capabilities":["completion"]}`,
		quoted("FROM "+model+"\nPARAMETER "+window+"\n"), window, quoted(model), quoted(model+".context_length"), a.cfg.ContextLength))
}
