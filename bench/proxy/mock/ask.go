package mock

import "github.com/warmpath/warmpath/bench/proxy/wire"

// api is an endpoint that takes prompts.
type api byte

const (
	chat api = iota
	completions
	generate
)

// ask holds the fields of a request. Its slices alias the body.
type ask struct {
	api    api
	stream bool
	usage  bool   // stream_options.include_usage
	tokens int    // of the answer
	ids    []byte // the prompt as JSON digits and commas, or nil
	text   []byte // else as the inside of a JSON string, or for a chat of the list of messages
}

// defaultTokens is how long an answer is when nothing is said.
const defaultTokens = 16

// parseAsk finds the few fields that matter. A body that is not JSON, or has no prompt, is not ok.
func parseAsk(a api, body []byte) (q ask, ok bool) {
	q = ask{api: a, tokens: defaultTokens}
	_, ok = wire.Members(body, q.field)
	return q, ok && (q.ids != nil || q.text != nil)
}

func (q *ask) field(name, value []byte) {
	switch string(name) {
	case "stream":
		q.stream = value[0] == 't'
	case "max_tokens", "max_completion_tokens", "max_new_tokens":
		if n, ok := wire.Number(value); ok {
			q.tokens = n
		}
	case "stream_options", "sampling_params":
		if value[0] == '{' {
			wire.Members(value, q.field)
		}
	case "include_usage":
		q.usage = value[0] == 't'
	case "messages", "prompt", "text", "input_ids":
		q.prompt(name, value)
	}
}

// prompt takes a text, a list of ids or a list of messages.
func (q *ask) prompt(name, value []byte) {
	if len(value) < 2 {
		return
	}
	inner := value[1 : len(value)-1]
	switch {
	case value[0] == '"', string(name) == "messages":
		q.text = inner
	case value[0] == '[':
		q.ids = inner
	}
}

// appendTokens appends the prompt's ids: those that it has, or one for each four bytes of text.
func (q *ask) appendTokens(dst []uint32) []uint32 {
	if q.ids == nil {
		return appendText(dst, q.text)
	}
	n, in := uint32(0), false
	for _, c := range q.ids {
		if d := uint32(c) - '0'; d <= 9 {
			n, in = n*10+d, true
		} else if in {
			dst, n, in = append(dst, n), 0, false
		}
	}
	if in {
		dst = append(dst, n)
	}
	return dst
}

// appendText is no tokenizer, but as good as one where only sameness counts. Ids are below 2^17,
// near those of today's models. The last one to three bytes are a token too.
func appendText(dst []uint32, text []byte) []uint32 {
	for len(text) > 0 {
		var four [4]byte
		text = text[copy(four[:], text):]
		v := uint32(four[0]) | uint32(four[1])<<8 | uint32(four[2])<<16 | uint32(four[3])<<24
		dst = append(dst, v*2654435761>>15) // Knuth's multiplier
	}
	return dst
}
