package sim

import (
	"encoding/json"
	"fmt"
)

// logprob is the simulated model's log probability of token id after token prev. It depends on
// nothing else, so every worker computes the same one; its 512ths survive JSON exactly.
func logprob(prev, id uint32) float64 {
	return -float64(mix(uint64(prev)<<32|uint64(id))&4095) / 512
}

// alternativeToken returns the nth best token at the position of id, and its log probability.
func alternativeToken(prev, id uint32, n int) (uint32, float64) {
	if n == 0 {
		return id, logprob(prev, id)
	}
	return generatedToken(mix(uint64(prev)<<32 ^ uint64(id) + uint64(n))), logprob(prev, id) - float64(n)
}

// previousToken returns the token before position i of r's answer; negative positions are the
// prompt's.
func previousToken(r *request, out []uint32, i int) uint32 {
	if i > 0 {
		return out[i-1]
	}
	return r.prompt[len(r.prompt)-1+i]
}

// hasInputLogprobs reports whether r's answer has log probabilities of its prompt. For a pair,
// only the prefill leg's answer has them.
func (r *request) hasInputLogprobs() bool { return r.leg == nil || r.home.cfg.Mode == ModePrefill }

// eachInput calls f for each prompt token with a log probability. The first one has none, as no
// known token precedes it.
func (r *request) eachInput(f func(first bool, prev, id uint32)) {
	if !r.hasInputLogprobs() {
		return
	}
	for i := r.logFrom; i < len(r.prompt); i++ {
		prev := uint32(0)
		if i > 0 {
			prev = r.prompt[i-1]
		}
		f(i == r.logFrom, prev, r.prompt[i])
	}
}

// triple is [logprob, id, text], without a text.
type triple [3]any

func tops(prev, id uint32, top int) []triple {
	all := make([]triple, top)
	for n := range all {
		other, lp := alternativeToken(prev, id, n)
		all[n] = triple{lp, other, nil}
	}
	return all
}

// appendLogprobs appends the log probabilities of an answer of /generate.
func appendLogprobs(dst []byte, r *request, out []uint32, top int) []byte {
	input, output, inputTops, outputTops := []triple{}, []triple{}, [][]triple{}, [][]triple{}
	r.eachInput(func(first bool, prev, id uint32) {
		if first {
			input, inputTops = append(input, triple{nil, id, nil}), append(inputTops, nil)
			return
		}
		input, inputTops = append(input, triple{logprob(prev, id), id, nil}), append(inputTops, tops(prev, id, top))
	})
	for i, id := range out {
		prev := previousToken(r, out, i)
		output, outputTops = append(output, triple{logprob(prev, id), id, nil}), append(outputTops, tops(prev, id, top))
	}
	dst = fmt.Appendf(dst, `,"input_token_logprobs":%s,"output_token_logprobs":%s,"output_token_logprobs_length":%d`,
		encoded(input), encoded(output), len(out))
	if top == 0 {
		return dst
	}
	return fmt.Appendf(dst, `,"input_top_logprobs":%s,"output_top_logprobs":%s`, encoded(inputTops), encoded(outputTops))
}

// choiceLogprobs are the log probabilities of a choice of an OpenAI answer: of the answer's
// tokens from sent on, and of the prompt. Without a request there are none.
type choiceLogprobs struct {
	r     *request
	out   []uint32
	sent  int
	input bool
	top   int
	chat  bool
}

// logged returns the log probabilities of sequence i's tokens after the first sent ones.
func (j *job) logged(i, sent int, p progress, chat bool) choiceLogprobs {
	if !j.logprobs {
		return choiceLogprobs{}
	}
	return choiceLogprobs{r: j.reqs[i], out: p.out, sent: sent, input: j.echo && sent == 0 && j.top > 0, top: j.top, chat: chat}
}

func (g choiceLogprobs) append(dst []byte) []byte {
	switch {
	case g.r == nil:
		return append(dst, "null"...)
	case g.chat:
		return g.appendChat(dst)
	}
	return g.appendCompletion(dst)
}

// chatToken is a token in the format of /v1/chat/completions.
type chatToken struct {
	Token   string      `json:"token"`
	Bytes   []int       `json:"bytes"`
	Logprob float64     `json:"logprob"`
	Top     []chatToken `json:"top_logprobs,omitzero"`
}

func newChatToken(id uint32, lp float64) chatToken {
	text := appendToken(nil, id)
	t := chatToken{Token: string(text), Logprob: lp}
	for _, b := range text {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// appendChat appends them in the format of /v1/chat/completions.
func (g choiceLogprobs) appendChat(dst []byte) []byte {
	content := []chatToken{}
	for i, id := range g.out[g.sent:] {
		prev := previousToken(g.r, g.out, g.sent+i)
		t := newChatToken(id, logprob(prev, id))
		t.Top = []chatToken{}
		for n := range g.top {
			t.Top = append(t.Top, newChatToken(alternativeToken(prev, id, n)))
		}
		content = append(content, t)
	}
	return fmt.Appendf(dst, `{"content":%s}`, encoded(content))
}

// completionLogprobs are in the format of /v1/completions: four parallel lists.
type completionLogprobs struct {
	Offset []int                `json:"text_offset"`
	Values []*float64           `json:"token_logprobs"`
	Tokens []string             `json:"tokens"`
	Tops   []map[string]float64 `json:"top_logprobs"`
}

func (g choiceLogprobs) appendCompletion(dst []byte) []byte {
	c := completionLogprobs{[]int{}, []*float64{}, []string{}, []map[string]float64{}}
	add := func(first bool, prev, id uint32) {
		var value *float64
		var best map[string]float64
		if !first {
			value, best = new(logprob(prev, id)), map[string]float64{}
		}
		for n := 0; n < g.top && !first; n++ {
			if other, lp := alternativeToken(prev, id, n); n == 0 || other != id {
				best[string(appendToken(nil, other))] = lp
			}
		}
		c.Offset, c.Values = append(c.Offset, -1), append(c.Values, value)
		c.Tokens = append(c.Tokens, string(appendToken(nil, id)))
		if g.top > 0 {
			c.Tops = append(c.Tops, best)
		}
	}
	if g.input {
		g.r.eachInput(add)
	}
	for i, id := range g.out[g.sent:] {
		add(false, previousToken(g.r, g.out, g.sent+i), id)
	}
	return append(dst, encoded(c)...)
}

// encoded is v in JSON, which all of this package's answers have.
func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) //nolint:forbidigo // no type of an answer can fail
	}
	return b
}
