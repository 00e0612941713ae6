package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/modelfile"
)

const (
	// vocabularyTimeout is long for an answer that needs no scheduler: SGLang's HTTP process
	// gives it.
	vocabularyTimeout = 2 * time.Second
	// vocabularyAsks and vocabularyAgain bound the questions to a process that does not answer
	// them, because it is busy or an older release.
	vocabularyAsks  = 5
	vocabularyAgain = 10 * time.Second
	// maxVocabulary is more than any model has: 262,144.
	maxVocabulary = 1 << 24
)

// vocabularyQuestion is a request that SGLang refuses with the valid range of ids: no release
// reports it in /server_info. A release without that check computes one prompt token and
// generates none.
var vocabularyQuestion = []byte(`{"input_ids":[0],"sampling_params":{"max_new_tokens":0,"logit_bias":{"-1":0}}}`)

// vocabularyAnswer is "logit_bias must has keys in [0, 1023], got -1." of SGLang 0.5.23.
var vocabularyAnswer = regexp.MustCompile(`logit_bias[^"]*\[0, ([0-9]{1,8})\]`)

// vocabulary returns the number of token ids of the worker's model: by the worker, else by the
// model's config.json if that is on this machine, else 0.
func (p *prober) vocabulary(info *Info) int {
	if info.ModelPath == "" {
		return 0 // not SGLang: a question that it does not refuse would be work
	}
	if n := p.askVocabulary(); n > 0 {
		return n
	}
	return p.readVocabulary(filepath.Join(info.ModelPath, "config.json"))
}

func (p *prober) askVocabulary() int {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	req.SetRequestURI(p.base + "/generate")
	req.Header.SetMethod(fasthttp.MethodPost)
	req.Header.SetContentType("application/json")
	req.SetBodyRaw(vocabularyQuestion)
	a, err := p.do(req, resp, vocabularyTimeout)
	if err != nil || a.status != fasthttp.StatusBadRequest {
		return 0
	}
	return vocabularyOf(a.body)
}

// vocabularyOf reads the answer to vocabularyQuestion.
func vocabularyOf(body []byte) int {
	m := vocabularyAnswer.FindSubmatch(body)
	if m == nil {
		return 0
	}
	last, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return 0
	}
	return within(last+1, maxVocabulary)
}

// readVocabulary reads a model's config.json. Multimodal models have the field in the part of
// their language model.
func (p *prober) readVocabulary(path string) int {
	ctx, cancel := context.WithTimeout(p.conns.end, vocabularyTimeout)
	defer cancel()
	raw, err := p.files.Read(ctx, path, modelfile.MaxConfig, modelfile.Worker)
	if err != nil {
		return 0
	}
	type part struct {
		Vocabulary int   `json:"vocab_size"`
		Text       *part `json:"text_config"`
		LLM        *part `json:"llm_config"`
		Language   *part `json:"language_config"`
		Thinker    *part `json:"thinker_config"`
	}
	var top part
	if json.Unmarshal(raw, &top) != nil {
		return 0
	}
	for at := &top; ; {
		inner := cmp.Or(at.Text, at.Thinker, at.LLM, at.Language)
		if inner == nil {
			return within(at.Vocabulary, maxVocabulary)
		}
		at = inner
	}
}
