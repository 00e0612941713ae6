package openai

// Answer is the answer that a request asks for.
type Answer struct {
	// Stream asks for an answer in SSE; IncludeUsage is stream_options.include_usage.
	Stream, IncludeUsage bool
	// N is the number of answers for each prompt: "n", or sampling_params.n. At least 1.
	N int
	// MaxTokens is the largest number of tokens to generate, 0 when the body does not say (or says
	// it in a form that the worker must judge).
	MaxTokens int
	// PromptLogprobs reports that the answer may have log probabilities of the prompt:
	// return_logprob of /generate, logprobs with echo of completions. A wrong true costs time only.
	PromptLogprobs bool
	// Computed reports that the worker computes the prompt from token ComputedFrom on, regardless
	// of its cache, because the answer has the log probabilities of these tokens.
	Computed     bool
	ComputedFrom int
	// Unstored reports that the worker may keep the prompt out of its cache. SGLang does
	// for a search by beams, and for the address of a pair that is none.
	Unstored bool
}

func (a *Answer) readStreamOptions(d *document) {
	a.IncludeUsage, _ = boolOf(Member(d.raw(fieldStreamOptions), "include_usage"))
}

// readSamplingParams reads /generate's sampling_params: an object, or for a batch a list of them,
// of which the first counts.
func (a *Answer) readSamplingParams(d *document) *Error {
	raw := d.raw(fieldSamplingParams)
	if raw == nil {
		return nil
	}
	if raw[0] == '[' {
		raw = raw[skipSpace(raw, 1):]
	}
	if raw[0] != '{' && raw[0] != ']' {
		return errAt("sampling_params", "must be an object or a list of objects", d.spans[fieldSamplingParams].lo)
	}
	var most, n, beams []byte
	Pick(raw, 0, To("max_new_tokens", &most), To("n", &n), To("beam_width", &beams))
	a.MaxTokens, a.N = countOf(most, 0), countOf(n, 1)
	a.Unstored = a.Unstored || countOf(beams, 1) > 1
	return nil
}
