package anthropic

import (
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// request holds the members of a body that the conversion reads, as raw JSON; nil where a member
// is absent or null.
type request struct {
	model, messages, system, tools, toolChoice, thinking, outputConfig, metadata []byte
	copied                                                                       [len(copied)][]byte
}

// copied are the members that no template sees, and their names in a chat. Of both ranks SGLang
// reads the first one only, and the rank's header.
var copied = [...]struct{ from, to string }{
	{"max_tokens", "max_tokens"},
	{"stream", "stream"},
	{"temperature", "temperature"},
	{"top_p", "top_p"},
	{"top_k", "top_k"},
	{"stop_sequences", "stop"},
	{"routed_dp_rank", "routed_dp_rank"},
	{"data_parallel_rank", "data_parallel_rank"},
}

// read checks the body and finds its members. The error is an *openai.Error.
func (r *request) read(body []byte) error {
	fields := openai.Fields{
		openai.To("model", &r.model), openai.To("messages", &r.messages), openai.To("system", &r.system), openai.To("tools", &r.tools), openai.To("tool_choice", &r.toolChoice),
		openai.To("thinking", &r.thinking), openai.To("output_config", &r.outputConfig), openai.To("metadata", &r.metadata),
	}
	for i := range copied {
		fields = append(fields, openai.To(copied[i].from, &r.copied[i]))
	}
	return openai.WalkObject(body, func(key []byte, lo, hi int) { fields.Take(openai.Unescape(key), body[lo:hi:hi]) })
}

// writer appends the chat request.
type writer struct {
	dst   []byte
	rules chattemplate.Rules
	exact bool
	tools int     // that were converted
	calls []block // of the message that is being converted
}

// doubt notes that the conversion may not be the worker's.
func (w *writer) doubt() { w.exact = false }

// AppendChat appends the chat completions request that SGLang makes of body to dst. rules are asked
// once, for the body's model. exact reports that the chat renders to the prompt that the engine
// sees. The error is an *openai.Error.
func AppendChat(dst, body []byte, rules chattemplate.RulesOf) (chat []byte, exact bool, err error) {
	var r request
	if err := r.read(body); err != nil {
		return dst, false, err
	}
	if r.messages == nil {
		return dst, false, openai.BadRequest("messages", "The messages are missing.")
	}
	w := writer{dst: append(dst, '{'), exact: true, rules: rules(textOf(r.model))}
	w.member("model", r.model)
	w.messages(&r)
	w.toolList(r.tools)
	w.toolChoice(r.toolChoice)
	w.templateKwargs(r.thinking, r.outputConfig)
	for i, value := range r.copied {
		w.member(copied[i].to, value)
	}
	w.member("user", openai.Member(r.metadata, "user_id"))
	w.member("metadata", r.metadata) // names the session, to the router
	return append(w.dst, '}'), w.exact, nil
}

// member appends a member of the chat, unless it has no value.
func (w *writer) member(name string, value []byte) { w.dst = openai.AppendMember(w.dst, name, value) }

func (w *writer) name(name string) { w.dst = openai.AppendName(w.dst, name) }

// comma parts the next element of a list from the one before.
func (w *writer) comma() {
	if w.dst[len(w.dst)-1] != '[' {
		w.dst = append(w.dst, ',')
	}
}
