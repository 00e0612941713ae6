package mock

import (
	"bytes"

	"github.com/warmpath/warmpath/bench/proxy/wire"
)

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

// parseAsk finds the few fields that matter. What is not JSON, or has no prompt, is not ok.
func parseAsk(a api, body []byte) (q ask, ok bool) {
	q = ask{api: a, tokens: defaultTokens}
	ok = fields(body, q.field)
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
			fields(value, q.field)
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

// fields calls f for each member of the JSON object b, with its name and its raw value.
func fields(b []byte, f func(name, value []byte)) bool {
	i := space(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	if i = space(b, i+1); i < len(b) && b[i] == '}' {
		return true
	}
	for i < len(b) && b[i] == '"' {
		end := after(b, i)
		if end < 0 {
			return false
		}
		name := b[i+1 : end-1]
		if i = space(b, end); i >= len(b) || b[i] != ':' {
			return false
		}
		i = space(b, i+1)
		if end = after(b, i); end < 0 {
			return false
		}
		f(name, b[i:end])
		if i = space(b, end); i >= len(b) {
			return false
		}
		if b[i] == '}' {
			return true
		}
		if b[i] != ',' {
			return false
		}
		i = space(b, i+1)
	}
	return false
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// after returns where the value that begins at i ends, or -1. It does not check JSON within
// brackets.
func after(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return afterString(b, i)
	case '[', '{':
		return afterNested(b, i)
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func afterString(b []byte, i int) int {
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		slashes := 0
		for b[i-2-slashes] == '\\' { // ends at the opening quote
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}

// afterNested steps over brackets. A list of numbers, which may be megabytes, has nothing in it but
// its end.
func afterNested(b []byte, i int) int {
	if n := bytes.IndexByte(b[i:], ']'); b[i] == '[' && n > 0 && !bytes.ContainsAny(b[i+1:min(i+n, i+64)], `"[{`) {
		return i + n + 1
	}
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i = afterString(b, i); i < 0 {
				return -1
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
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

// vocabulary is how many ids texts have: a power of two near those of today's models.
const vocabulary = 1 << 17

// appendText is no tokenizer, but as good as one where only sameness counts. The last one to three
// bytes are a token too.
func appendText(dst []uint32, text []byte) []uint32 {
	for len(text) > 0 {
		var four [4]byte
		text = text[copy(four[:], text):]
		v := uint32(four[0]) | uint32(four[1])<<8 | uint32(four[2])<<16 | uint32(four[3])<<24
		dst = append(dst, v*2654435761>>15) // Knuth's multiplier
	}
	return dst
}
