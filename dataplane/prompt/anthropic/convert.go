package anthropic

import (
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
)

// request holds the members of a body that the conversion reads, as raw JSON; nil where a member
// is absent or null.
type request struct {
	model, messages, system, tools, toolChoice, thinking, outputConfig, metadata []byte
	maxTokens, stream, temperature, topP, topK, stop, rank, oldRank              []byte
}

// read takes in a member of the body.
func (r *request) read(key, value []byte) {
	if value[0] == 'n' {
		value = nil
	}
	switch string(key) {
	case "model":
		r.model = value
	case "messages":
		r.messages = value
	case "system":
		r.system = value
	case "tools":
		r.tools = value
	case "tool_choice":
		r.toolChoice = value
	case "thinking":
		r.thinking = value
	case "output_config":
		r.outputConfig = value
	case "metadata":
		r.metadata = value
	default:
		r.readSampling(key, value)
	}
}

// readSampling is read for the members that no template sees.
func (r *request) readSampling(key, value []byte) {
	switch string(key) {
	case "max_tokens":
		r.maxTokens = value
	case "stream":
		r.stream = value
	case "temperature":
		r.temperature = value
	case "top_p":
		r.topP = value
	case "top_k":
		r.topK = value
	case "stop_sequences":
		r.stop = value
	case "routed_dp_rank":
		r.rank = value
	case "data_parallel_rank": // SGLang reads the other name only, and the rank's header
		r.oldRank = value
	}
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
	if err := openai.WalkObject(body, func(key []byte, lo, hi int) {
		r.read(openai.Unescape(key), body[lo:hi:hi])
	}); err != nil {
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
	w.member("max_tokens", r.maxTokens)
	w.member("stream", r.stream)
	w.member("temperature", r.temperature)
	w.member("top_p", r.topP)
	w.member("top_k", r.topK)
	w.member("stop", r.stop)
	w.member("routed_dp_rank", r.rank)
	w.member("data_parallel_rank", r.oldRank)
	w.member("user", memberOf(r.metadata, "user_id"))
	w.member("metadata", r.metadata) // names the session, to the router
	return append(w.dst, '}'), w.exact, nil
}

// member appends a member of the chat, unless it has no value.
func (w *writer) member(name string, value []byte) {
	if value == nil {
		return
	}
	w.name(name)
	w.dst = append(w.dst, value...)
}

// name appends the name of the next member.
func (w *writer) name(name string) {
	if last := w.dst[len(w.dst)-1]; last != '{' {
		w.dst = append(w.dst, ',')
	}
	w.dst = append(w.dst, '"')
	w.dst = append(w.dst, name...)
	w.dst = append(w.dst, `":`...)
}

// comma parts the next element of a list from the one before.
func (w *writer) comma() {
	if w.dst[len(w.dst)-1] != '[' {
		w.dst = append(w.dst, ',')
	}
}
