package sim

import "strconv"

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

// appendLogprobs appends the log probabilities of an answer of /generate.
func appendLogprobs(dst []byte, r *request, out []uint32, top int) []byte {
	dst = append(dst, `,"input_token_logprobs":[`...)
	r.eachInput(func(first bool, prev, id uint32) {
		dst = append(appendTriple(dst, first, logprob(prev, id), id), ',')
	})
	dst = append(trimComma(dst), `],"output_token_logprobs":[`...)
	for i, id := range out {
		dst = append(appendTriple(dst, false, logprob(previousToken(r, out, i), id), id), ',')
	}
	dst = append(trimComma(dst), `],"output_token_logprobs_length":`...)
	dst = appendInt(dst, len(out))
	if top == 0 {
		return dst
	}
	dst = append(dst, `,"input_top_logprobs":[`...)
	r.eachInput(func(first bool, prev, id uint32) {
		if first {
			dst = append(dst, "null,"...)
		} else {
			dst = append(appendTops(dst, prev, id, top), ',')
		}
	})
	dst = append(trimComma(dst), `],"output_top_logprobs":[`...)
	for i, id := range out {
		dst = append(appendTops(dst, previousToken(r, out, i), id, top), ',')
	}
	return append(trimComma(dst), ']')
}

// trimComma removes a final comma.
func trimComma(dst []byte) []byte {
	if dst[len(dst)-1] == ',' {
		return dst[:len(dst)-1]
	}
	return dst
}

// appendTriple appends [logprob, id, text], without a text.
func appendTriple(dst []byte, none bool, lp float64, id uint32) []byte {
	if none {
		dst = append(dst, "[null"...)
	} else {
		dst = appendFloat(append(dst, '['), lp)
	}
	dst = strconv.AppendUint(append(dst, ','), uint64(id), 10)
	return append(dst, ",null]"...)
}

func appendTops(dst []byte, prev, id uint32, top int) []byte {
	dst = append(dst, '[')
	for n := range top {
		other, lp := alternativeToken(prev, id, n)
		dst = append(appendTriple(dst, false, lp, other), ',')
	}
	return append(trimComma(dst), ']')
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

// appendChat appends them in the format of /v1/chat/completions.
func (g choiceLogprobs) appendChat(dst []byte) []byte {
	dst = append(dst, `{"content":[`...)
	for i, id := range g.out[g.sent:] {
		prev := previousToken(g.r, g.out, g.sent+i)
		dst = append(appendChatToken(dst, id, logprob(prev, id)), `,"top_logprobs":[`...)
		for n := range g.top {
			other, lp := alternativeToken(prev, id, n)
			dst = append(appendChatToken(dst, other, lp), '}', ',')
		}
		dst = append(trimComma(dst), "]},"...)
	}
	return append(trimComma(dst), "]}"...)
}

func appendChatToken(dst []byte, id uint32, lp float64) []byte {
	text := appendToken(nil, id)
	dst = appendJSONString(append(dst, `{"token":`...), text)
	dst = append(dst, `,"bytes":[`...)
	for _, b := range text {
		dst = append(appendInt(dst, int(b)), ',')
	}
	return appendFloat(append(trimComma(dst), `],"logprob":`...), lp)
}

// appendCompletion appends them in the format of /v1/completions: four parallel lists.
func (g choiceLogprobs) appendCompletion(dst []byte) []byte {
	type entry struct {
		none     bool
		prev, id uint32
	}
	var all []entry
	if g.input {
		g.r.eachInput(func(first bool, prev, id uint32) { all = append(all, entry{first, prev, id}) })
	}
	for i, id := range g.out[g.sent:] {
		all = append(all, entry{false, previousToken(g.r, g.out, g.sent+i), id})
	}
	dst = append(dst, `{"text_offset":[`...)
	for range all {
		dst = append(dst, "-1,"...)
	}
	dst = append(trimComma(dst), `],"token_logprobs":[`...)
	for _, e := range all {
		if e.none {
			dst = append(dst, "null,"...)
		} else {
			dst = append(appendFloat(dst, logprob(e.prev, e.id)), ',')
		}
	}
	dst = append(trimComma(dst), `],"tokens":[`...)
	for _, e := range all {
		dst = append(appendJSONString(dst, appendToken(nil, e.id)), ',')
	}
	dst = append(trimComma(dst), `],"top_logprobs":[`...)
	for _, e := range all {
		switch {
		case g.top == 0:
		case e.none:
			dst = append(dst, "null,"...)
		default:
			dst = append(appendTopTexts(dst, e.prev, e.id, g.top), ',')
		}
	}
	return append(trimComma(dst), "]}"...)
}

// appendTopTexts appends the best tokens by text; equal texts count once.
func appendTopTexts(dst []byte, prev, id uint32, top int) []byte {
	dst = append(dst, '{')
	for n := range top {
		other, lp := alternativeToken(prev, id, n)
		if n > 0 && other == id {
			continue
		}
		dst = appendJSONString(dst, appendToken(nil, other))
		dst = append(appendFloat(append(dst, ':'), lp), ',')
	}
	return append(trimComma(dst), '}')
}
