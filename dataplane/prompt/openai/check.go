package openai

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

const (
	// maxVocabulary replaces an unknown vocabulary: the largest ones have 262,144 ids.
	maxVocabulary = 1 << 20
	// maxAnswers bounds n. SGLang 0.5.23 makes a record of 4 KB for each answer at once: n of five
	// million took 22 GB (sgl-project/sglang#36856).
	maxAnswers = 1 << 16
)

// Limits are values that a model's engines survive.
type Limits struct {
	// Vocabulary is the number of token ids of the model; 0 is unknown.
	Vocabulary int
	// Labels reports that the workers count some custom_labels.
	Labels bool
	// Templates reports that some workers render the chat templates of bodies.
	Templates bool
}

func checkRequest(r *Request, vocab int) *Error {
	if r.HasIDs && vocab > 0 && uint64(r.maxID) >= uint64(vocab) {
		return errOutside(idsField(r), strconv.FormatUint(uint64(r.maxID), 10), vocab)
	}
	switch {
	case r.API == APIGenerate:
		return checkGenerate(r, vocab)
	case r.API == APICompletions:
		if err := checkCount(r, fieldLogprobs, "logprobs", vocab); err != nil {
			return err
		}
		return checkOpenAI(r, vocab)
	case r.API.isChat():
		if err := checkCount(r, fieldTopLogprobs, "top_logprobs", vocab); err != nil {
			return err
		}
		return checkOpenAI(r, vocab)
	}
	if string(r.raw(fieldQuery)) == `""` && bytes.Contains(r.raw(fieldItems), []byte(`""`)) {
		return BadRequest("items", "items must not be empty beside an empty query.")
	}
	if err := checkCount(r, fieldTopLogprobs, "top_logprobs", vocab); err != nil {
		return err
	}
	if err := checkSamplingParams(samplingParams{topK: r.raw(fieldTopK)}, vocab); err != nil {
		return err
	}
	return checkOther(r, vocab)
}

// idsField names the field that the prompt's ids came in.
func idsField(r *Request) string {
	if r.API == APICompletions {
		return "prompt"
	}
	return "input_ids"
}

func errOutside(param, id string, vocab int) *Error {
	return BadRequest(param, param+" holds the token id "+id+". The model has the ids 0 to "+strconv.Itoa(vocab-1)+".")
}

func checkGenerate(r *Request, vocab int) *Error {
	if r.raw(fieldEmbedOverrides) != nil {
		return BadRequest("positional_embed_overrides", "positional_embed_overrides cannot be sent over HTTP.")
	}
	if r.PromptLogprobs {
		if err := checkCount(r, fieldTopLogprobsNum, "top_logprobs_num", vocab); err != nil {
			return err
		}
		for raw := range numbers(r.raw(fieldLogprobStartLen)) {
			if v, ok := number(raw); ok && v < -1 {
				return BadRequest("logprob_start_len", "logprob_start_len must be at least -1, not "+string(raw)+".")
			}
		}
	}
	raw := r.raw(fieldSamplingParams)
	if len(raw) == 0 || raw[0] != '[' {
		return checkSampling(raw, vocab)
	}
	var err *Error
	_, _ = Elements(raw, 0, func(lo, hi int) {
		if err == nil {
			err = checkSampling(raw[lo:hi], vocab)
		}
	})
	return err
}

// checkSampling checks an object of /generate's sampling_params.
func checkSampling(raw []byte, vocab int) *Error {
	if !IsObject(raw) {
		return nil
	}
	var d samplingParams
	Pick(raw, 0, To("top_k", &d.topK), To("stop_token_ids", &d.stops), To("min_new_tokens", &d.least), To("n", &d.n))
	return checkSamplingParams(d, vocab)
}

// checkOpenAI checks the sampling parameters of the OpenAI routes, which are at the top level.
func checkOpenAI(r *Request, vocab int) *Error {
	return checkSamplingParams(samplingParams{r.raw(fieldTopK), r.raw(fieldStopTokenIDs), r.raw(fieldMinTokens), r.raw(fieldN)}, vocab)
}

// samplingParams holds sampling parameters as raw JSON.
type samplingParams struct{ topK, stops, least, n []byte }

func checkSamplingParams(d samplingParams, vocab int) *Error {
	if v, ok := number(d.topK); ok && v > math.MaxInt32 {
		return BadRequest("top_k", "top_k must be below 2³¹, not "+string(d.topK)+". -1 is the whole vocabulary.")
	}
	if v, ok := number(d.n); ok && v > maxAnswers {
		return BadRequest("n", "n must be at most "+strconv.Itoa(maxAnswers)+", not "+string(d.n)+".")
	}
	// With min_tokens, stop ids are indices into a table of the vocabulary and one more.
	if v, ok := number(d.least); !ok || v <= 0 || len(d.stops) == 0 {
		return nil
	}
	limit := vocab
	if vocab == 0 {
		limit = maxVocabulary
	}
	for raw := range numbers(d.stops) {
		if v, ok := number(raw); ok && (v < 0 || v > float64(limit)) {
			return errOutside("stop_token_ids", string(raw), limit)
		}
	}
	return nil
}

// checkCount checks the number of likeliest tokens asked for: a number, or for a batch a list.
func checkCount(r *Request, f field, param string, vocab int) *Error {
	if vocab == 0 {
		vocab = maxVocabulary
	}
	for raw := range numbers(r.raw(f)) {
		if v, ok := number(raw); ok && v > float64(vocab) {
			return BadRequest(param, param+" must be at most "+strconv.Itoa(vocab)+", the size of the vocabulary, not "+string(raw)+".")
		}
	}
	return nil
}

// checkOther checks the ids of embeddings, scores and classes, which the other routes do not keep.
func checkOther(r *Request, vocab int) *Error {
	for _, f := range [...]struct {
		field field
		param string
	}{{fieldInput, "input"}, {fieldInputIDs, "input_ids"}, {fieldQuery, "query"}, {fieldItems, "items"}} {
		list := r.raw(f.field)
		nested := len(list) > 0 && list[0] == '[' && list[skipSpace(list, 1)] == '['
		for raw := range numbers(list) {
			v, ok := number(raw)
			switch {
			case !ok, raw[0] == '"' && !nested:
				// A text; Pydantic takes one in a list of lists for a number.
			case v < 0:
				return BadRequest(f.param, f.param+" must hold no negative token id, not "+string(raw)+".")
			case vocab > 0 && v >= float64(vocab):
				return errOutside(f.param, string(raw), vocab)
			}
		}
	}
	return nil
}

// numbers yields the numbers of a checked value: itself, or those of a list or of the lists in it.
// It ends at the first object.
func numbers(raw []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for i := 0; i < len(raw); {
			switch c := raw[i]; {
			case c == '{':
				return
			case c == '-' || isDigit(c):
				end := i + 1
				for end < len(raw) && raw[end] != ',' && raw[end] != ']' && raw[end] > ' ' {
					end++
				}
				if !yield(raw[i:end]) {
					return
				}
				i = end
			case c == '"':
				end, _, err := scanString(raw, i+1)
				if err != nil || !yield(raw[i:end]) {
					return
				}
				i = end
			default:
				i++
			}
		}
	}
}

// number reads a raw number, and one in a string as the workers' Pydantic does.
func number(raw []byte) (v float64, ok bool) {
	if len(raw) == 0 {
		return 0, false
	}
	if n, plain := parseInt(raw); plain {
		return float64(n), true
	}
	text := string(raw)
	if raw[0] == '"' {
		if plain, err := strconv.Unquote(text); err == nil && bytes.IndexByte(raw, '\\') >= 0 {
			raw = []byte(plain)
		}
		text = strings.ReplaceAll(strings.TrimSpace(string(bytes.Trim(raw, `"`))), "_", "")
		if text == "" || !isDigit(text[0]) && text[0] != '-' && text[0] != '+' {
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil || math.IsInf(v, 0)
}

// maxOfEach is maxOf for one id after the other.
func maxOfEach(ids []uint32) uint32 {
	var a, b, c, d uint32 // four chains: each step waits for the one before
	for ; len(ids) >= 4; ids = ids[4:] {
		a, b, c, d = max(a, ids[0]), max(b, ids[1]), max(c, ids[2]), max(d, ids[3])
	}
	for _, id := range ids {
		a = max(a, id)
	}
	return max(a, b, c, d)
}
