package ollama

import (
	"bytes"

	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// defaultPredict is SGLang's bound of an answer's tokens where the options name none.
const defaultPredict = "2048"

// request holds the members of a body that SGLang reads, as raw JSON; nil where a member is absent
// or null.
type request struct{ model, stream, messages, prompt, system, predict, topK []byte }

// read checks the body and finds its members.
func (r *request) read(body []byte) error {
	var options []byte
	fields := openai.Fields{
		openai.To("model", &r.model), openai.To("stream", &r.stream), openai.To("messages", &r.messages), openai.To("prompt", &r.prompt),
		openai.To("system", &r.system), openai.To("options", &options),
	}
	err := openai.WalkObject(body, func(key []byte, lo, hi int) { fields.Take(openai.Unescape(key), body[lo:hi:hi]) })
	if err != nil {
		return err
	}
	if openai.IsObject(options) {
		openai.Pick(options, 0, openai.To("num_predict", &r.predict), openai.To("top_k", &r.topK))
	}
	if bytes.HasPrefix(r.predict, []byte{'-'}) {
		return openai.BadRequest("num_predict", "num_predict must not be negative: workers know no answer without a bound.")
	}
	if r.predict == nil {
		r.predict = []byte(defaultPredict)
	}
	if r.stream == nil {
		r.stream = []byte("true")
	}
	return nil
}

// AppendChat appends the chat completions request that a body of /api/chat stands for to dst. The
// error is an *openai.Error.
func AppendChat(dst, body []byte) ([]byte, error) {
	var r request
	if err := r.read(body); err != nil {
		return dst, err
	}
	dst = r.begin(dst)
	dst = openai.AppendMember(dst, "max_tokens", r.predict)
	dst = openai.AppendMember(dst, "top_k", r.topK)
	switch {
	case r.messages == nil:
		return append(dst, '}'), nil
	case !openai.IsList(r.messages):
		return append(openai.AppendMember(dst, "messages", r.messages), '}'), nil
	}
	dst = append(dst, `,"messages":[`...)
	first := len(dst)
	openai.WalkList(r.messages, 0, func(at int) (end int) {
		if r.messages[at] != '{' {
			return 0
		}
		var role, content []byte
		end = openai.Pick(r.messages, at, openai.To("role", &role), openai.To("content", &content))
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = openai.AppendMember(append(dst, '{'), "role", openai.OrNull(role))
		dst = append(openai.AppendMember(dst, "content", openai.OrNull(content)), '}')
		return end
	})
	return append(dst, "]}"...), nil
}

// AppendGenerate appends the request to /generate that a body of /api/generate stands for to dst.
// empty reports a prompt without a text, which SGLang answers at once: clients load models by it.
// The error is an *openai.Error.
func AppendGenerate(dst, body []byte) (_ []byte, empty bool, err error) {
	var r request
	if err := r.read(body); err != nil {
		return dst, false, err
	}
	dst = r.begin(dst)
	if !openai.IsString(r.prompt) {
		return append(openai.AppendMember(dst, "text", r.prompt), '}'), false, nil
	}
	system := openai.IsString(r.system) && len(r.system) > len(`""`)
	dst = append(dst, `,"text":"`...)
	at := len(dst)
	if system {
		dst = append(append(dst, openai.Inside(r.system)...), `\n\n`...)
	}
	dst = append(dst, openai.Inside(r.prompt)...)
	empty = len(bytes.TrimSpace(openai.Unescape(dst[at:]))) == 0
	dst = append(append(dst, `","sampling_params":{"max_new_tokens":`...), r.predict...)
	return append(openai.AppendMember(dst, "top_k", r.topK), "}}"...), empty, nil
}

// begin appends the members of both requests.
func (r *request) begin(dst []byte) []byte {
	dst = openai.AppendMember(append(dst, '{'), "stream", r.stream)
	return openai.AppendMember(dst, "model", r.model)
}

// AppendError appends {"error":"…"}, all that Ollama's clients read of an error: as the body of an
// answer, and as the last line of a stream.
func AppendError(dst []byte, e *openai.Error) []byte {
	return append(openai.AppendStringField(append(dst, '{'), "error", e.Error()), '}')
}
