package replay

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/bench/trace"
)

// API is the endpoint that a replay speaks to.
type API uint8

// The endpoints. A trace has token ids, which the first two take as they are; the others get a word
// for each, which shares prefixes in the same way and is about as long.
const (
	APIGenerate    API = iota // SGLang's /generate. Each event repeats the whole answer so far.
	APICompletions            // /v1/completions
	APIChat                   // /v1/chat/completions
	APIMessages               // /v1/messages. It cannot demand an answer's length, only bound it.
)

// ErrAPI is the name of an endpoint that this package does not know.
var ErrAPI = errors.New("replay: unknown API")

// ParseAPI reads generate, completions, chat or messages.
func ParseAPI(name string) (API, error) {
	for _, a := range []API{APIGenerate, APICompletions, APIChat, APIMessages} {
		if a.String() == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("cannot replay to %q: %w: want generate, completions, chat or messages", name, ErrAPI)
}

// String names the API as the flag --api does.
func (a API) String() string { return [...]string{"generate", "completions", "chat", "messages"}[a] }

func (a API) path() string {
	return [...]string{"/generate", "/v1/completions", "/v1/chat/completions", "/v1/messages"}[a]
}

// Vocabulary bounds the token ids of prompts: [First, First+Size). The ids below First are
// special tokens in most models.
type Vocabulary struct {
	First, Size uint32
}

// token is the i-th token of a prompt. It depends on its block and its place there, so equal
// ids give equal tokens in every run.
func (v Vocabulary) token(r *trace.Request, i int) uint32 {
	x := r.IDs[i/r.Block]*uint64(r.Block) + uint64(i%r.Block) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // splitmix64
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return v.First + uint32((x^x>>31)%uint64(v.Size))
}

// bodies encodes requests for one endpoint.
type bodies struct {
	api        API
	model      []byte // in JSON; empty: the server's only model
	vocabulary Vocabulary
	session    sessionField
}

// append appends the body of one request. A prompt of 12,000 tokens takes 0.15 ms: a cache of
// encoded blocks would save less than its memory costs.
func (b *bodies) append(dst []byte, r *trace.Request, session string) []byte {
	dst = b.session.appendField(append(dst, '{'), session)
	switch b.api {
	case APIGenerate:
		dst = append(dst, `"input_ids":[`...)
		dst = b.appendTokens(dst, r)
		dst = append(dst, `],"sampling_params":{"temperature":0,"ignore_eos":true,"max_new_tokens":`...)
		dst = strconv.AppendInt(dst, int64(max(1, r.Output)), 10)
		return append(dst, `},"stream":true}`...)
	case APICompletions:
		dst = append(b.appendOpenAI(dst, r), `,"prompt":[`...)
		return append(b.appendTokens(dst, r), `]}`...)
	case APIMessages:
		dst = append(append(append(dst, `"model":`...), b.modelOr(`"default"`)...), `,"stream":true,"temperature":0,"max_tokens":`...)
		dst = append(strconv.AppendInt(dst, int64(max(1, r.Output)), 10), `,"messages":[{"role":"user","content":"`...)
		return append(b.appendWords(dst, r), `"}]}`...)
	default:
		dst = append(b.appendOpenAI(dst, r), `,"messages":[{"role":"user","content":"`...)
		return append(b.appendWords(dst, r), `"}]}`...)
	}
}

// modelOr is the model's name in JSON.
func (b *bodies) modelOr(other string) []byte {
	if len(b.model) > 0 {
		return b.model
	}
	return []byte(other)
}

// appendOpenAI appends the fields that both OpenAI endpoints share. ignore_eos is an extension
// of SGLang and vLLM that makes an answer as long as the trace says.
func (b *bodies) appendOpenAI(dst []byte, r *trace.Request) []byte {
	if len(b.model) > 0 {
		dst = append(append(append(dst, `"model":`...), b.model...), ',')
	}
	dst = append(dst, `"stream":true,"stream_options":{"include_usage":true},"temperature":0,"ignore_eos":true,"max_tokens":`...)
	return strconv.AppendInt(dst, int64(max(1, r.Output)), 10)
}

// appendTokens appends the prompt's token ids in decimal.
func (b *bodies) appendTokens(dst []byte, r *trace.Request) []byte {
	for i := range r.Input {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(b.vocabulary.token(r, i)), 10)
	}
	return dst
}

// words are one token each, with the space before them, in every large model's tokenizer and in
// that of the simulated workers, which takes up to three letters. A block has 512 of them, so
// sixteen are enough to tell blocks apart.
var words = [...]string{
	" the", " of", " and", " to", " in", " is", " you", " but", " it", " he", " was", " for", " on", " are", " as", " not",
}

// appendWords appends a text of as many words as the prompt has tokens.
func (b *bodies) appendWords(dst []byte, r *trace.Request) []byte {
	for i := range r.Input {
		dst = append(dst, words[b.vocabulary.token(r, i)%uint32(len(words))]...)
	}
	return dst
}
