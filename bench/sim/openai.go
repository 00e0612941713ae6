package sim

import "fmt"

// appendHead begins an OpenAI answer, up to its list of choices.
func appendHead(dst []byte, j *job, id, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendJSONString(dst, id)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = appendInt(dst, int(j.born.Unix()))
	dst = append(dst, `,"model":`...)
	dst = appendJSONString(dst, j.model)
	return append(dst, `,"choices":[`...)
}

// appendReason appends the last fields of each choice.
func appendReason(dst []byte, g choiceLogprobs, f finishReason) []byte {
	dst = g.append(append(dst, `,"logprobs":`...))
	dst = append(dst, `,"finish_reason":`...)
	if f.kind == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendJSONString(dst, f.kind)
	}
	dst = append(dst, `,"matched_stop":`...)
	switch {
	case f.hasToken:
		return appendInt(dst, int(f.token))
	case f.matched != "":
		return appendJSONString(dst, f.matched)
	}
	return append(dst, "null"...)
}

// appendUsage sums up sequences. A prompt with n answers counts once. The last event of a
// completions stream lacks completion_tokens_details.
func appendUsage(dst []byte, j *job, ps []progress, details bool) []byte {
	prompt, cached, answer := 0, 0, 0
	for i, p := range ps {
		answer += len(p.out)
		if i%j.n == 0 {
			prompt += len(j.reqs[i].prompt)
			cached += p.cached
		}
	}
	dst = fmt.Appendf(dst, `{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d},"reasoning_tokens":0`,
		prompt, prompt+answer, answer, cached)
	if details {
		dst = append(dst, `,"completion_tokens_details":null`...)
	}
	return append(dst, '}')
}

func appendMetadata(dst []byte, ps []progress) []byte {
	return fmt.Appendf(dst, `,"metadata":{"weight_version":"default","weight_versions":[{"version":"default","start":0,"end":%d}]}`, len(ps[0].out))
}

func appendInputIDs(dst []byte, j *job) []byte {
	dst = append(dst, `{"input_ids":`...)
	return append(appendIDs(dst, j.reqs[0].prompt), '}')
}

// newText is the text of p after the first sent tokens.
func newText(r *request, sent int, p progress) []byte {
	ids := p.out[sent:]
	if p.reason.hasToken && !r.stop.keep && len(ids) > 0 {
		ids = ids[:len(ids)-1]
	}
	text := decoded(ids)
	return text[:max(0, len(text)-p.reason.trim)]
}
