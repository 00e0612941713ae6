//go:build engines

package engines_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
)

// form is one way in which clients ask, with everything that a pair answers in two parts: log probabilities of the prompt
// come from its prefill engine, those of the answer from its decode engine.
type form struct {
	name string
	path string
	make func(rnd *rand.Rand) document
}

// answerTokens is short: answers take most of the time on a CPU.
const answerTokens = 6

var forms = []form{
	{"generate", "/generate", func(rnd *rand.Rand) document {
		return generateBody(document{"input_ids": someIDs(rnd), "logprob_start_len": 0, "top_logprobs_num": 2, "token_ids_logprob": []int{7, 8}})
	}},
	{"generate, from the middle", "/generate", func(rnd *rand.Rand) document {
		ids := someIDs(rnd)
		return generateBody(document{"input_ids": ids, "logprob_start_len": len(ids) / 2})
	}},
	{"generate, a text, no prompt", "/generate", func(rnd *rand.Rand) document {
		return generateBody(document{"text": someText(rnd)})
	}},
	{"generate, two prompts", "/generate", func(rnd *rand.Rand) document {
		return generateBody(document{"input_ids": [][]int{someIDs(rnd), someIDs(rnd)}, "logprob_start_len": 0, "top_logprobs_num": 1})
	}},
	{"completions", "/v1/completions", func(rnd *rand.Rand) document {
		return openaiBody(document{"prompt": someText(rnd), "logprobs": 2})
	}},
	{"completions, echo", "/v1/completions", func(rnd *rand.Rand) document {
		return openaiBody(document{"prompt": someText(rnd), "logprobs": 2, "echo": true})
	}},
	{"completions, two prompts, echo", "/v1/completions", func(rnd *rand.Rand) document {
		return openaiBody(document{"prompt": []string{someText(rnd), someText(rnd)}, "logprobs": 1, "echo": true})
	}},
	{"completions, echo alone", "/v1/completions", func(rnd *rand.Rand) document {
		return openaiBody(document{"prompt": someText(rnd), "echo": true})
	}},
	{"chat", "/v1/chat/completions", func(rnd *rand.Rand) document {
		return openaiBody(document{"messages": []message{{"user", someText(rnd)}}, "logprobs": true, "top_logprobs": 2})
	}},
}

func generateBody(more document) document {
	more["sampling_params"] = document{"max_new_tokens": answerTokens, "temperature": 0, "ignore_eos": true}
	more["return_logprob"] = true
	return more
}

func openaiBody(more document) document {
	more["model"], more["max_tokens"], more["temperature"], more["ignore_eos"] = served, answerTokens, 0, true
	return more
}

// streamed returns the body's twin that asks for events.
func streamed(body document) document {
	twin := document{"stream": true}
	maps.Copy(twin, body)
	if _, openai := body["model"]; openai {
		twin["stream_options"] = document{"include_usage": true}
	}
	return twin
}

// someIDs is a prompt of 20 to 140 tokens that begins like no other.
func someIDs(rnd *rand.Rand) []int { return randomIDs(rnd, 20+rnd.IntN(121)) }

// someText is a prompt of as many tokens. The number in front keeps prompts apart: what an engine finds in its cache decides how
// many tokens it computes at once, and that the last bit of a log probability.
func someText(rnd *rand.Rand) string {
	return fmt.Sprintf("%09d %s", rnd.IntN(1e9), sentence(rnd, 10+rnd.IntN(111)))
}
