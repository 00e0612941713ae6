package request

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/prompt/anthropic"
	"github.com/warmpath/warmpath/dataplane/prompt/chattemplate"
	"github.com/warmpath/warmpath/dataplane/prompt/ollama"
	"github.com/warmpath/warmpath/dataplane/prompt/openai"
	"github.com/warmpath/warmpath/dataplane/prompt/tokens"
)

// converted reports whether SGLang converts requests of an API to chat completions before its chat
// template. The worker gets the client's own body; the router reads the chat request that it stands
// for.
func converted(api openai.API) bool {
	return api == openai.APIMessages || api == openai.APIResponses || api == openai.APIOllama
}

// errorBody returns an error as the body of an answer at a path.
func errorBody(path []byte, e *openai.Error) []byte {
	switch {
	case bytes.HasPrefix(path, []byte(pathMessages)):
		return anthropic.AppendError(nil, e)
	case bytes.HasPrefix(path, []byte(pathsOllama)):
		return ollama.AppendError(nil, e)
	}
	return e.AppendJSON(nil)
}

// errorEnd returns an error as the last events of a stream at a path.
func errorEnd(path []byte, e *openai.Error) []byte {
	switch {
	case bytes.HasPrefix(path, []byte(pathMessages)):
		return anthropic.AppendErrorEvents(nil, e)
	case bytes.HasPrefix(path, []byte(pathsOllama)):
		return append(ollama.AppendError(nil, e), '\n')
	}
	return append(e.AppendSSE(nil), "data: [DONE]\n\n"...)
}

const (
	pathMessages    = "/v1/messages"
	pathCountTokens = "/v1/messages/count_tokens"
	pathModels      = "/v1/models/"

	pathsOllama        = "/api/"
	pathOllamaChat     = "/api/chat"
	pathOllamaGenerate = "/api/generate"
	pathOllamaShow     = "/api/show"
	// pathTranscriptions has a form as its body.
	pathTranscriptions = "/v1/audio/transcriptions"
)

// apiOf returns the API and the method of a path that is forwarded. No other path is: a worker also
// has routes that change its weights and its cache.
func apiOf(path string) (api openai.API, method string, ok bool) {
	switch path {
	case "/v1/chat/completions":
		return openai.APIChat, fasthttp.MethodPost, true
	case "/v1/completions":
		return openai.APICompletions, fasthttp.MethodPost, true
	case "/generate":
		return openai.APIGenerate, fasthttp.MethodPost, true
	case pathMessages:
		return openai.APIMessages, fasthttp.MethodPost, true
	case pathResponses:
		return openai.APIResponses, fasthttp.MethodPost, true
	case pathOllamaChat, pathOllamaGenerate:
		return openai.APIOllama, fasthttp.MethodPost, true
	case "/v1/embeddings", "/v1/rerank", "/v1/score", "/v1/classify", pathCountTokens,
		"/rerank", "/v1/tokenize", "/tokenize", "/v1/detokenize", "/detokenize", "/encode", "/classify",
		"/parse_function_call", "/separate_reasoning", pathTranscriptions, pathOpenSession, pathCloseSession, pathOllamaShow:
		return openai.APIOther, fasthttp.MethodPost, true
	case "/model_info", "/get_model_info", "/v1/models", "/health_generate":
		return openai.APIOther, fasthttp.MethodGet, true
	}
	switch _, rest, ok := responsePath([]byte(path)); {
	case ok && rest == "":
		return openai.APIOther, fasthttp.MethodGet, true
	case ok:
		return openai.APIOther, fasthttp.MethodPost, rest == "cancel"
	default:
		return openai.APIOther, fasthttp.MethodGet, strings.HasPrefix(path, pathModels)
	}
}

// takesPut reports whether SGLang serves a path under PUT too.
func takesPut(path string) bool {
	switch path {
	case "/generate", "/encode", "/classify", "/v1/rerank":
		return true
	}
	return false
}

// parse reads a body and returns the bytes that were read: of an API with a conversion, the chat
// request that the body stands for.
func (x *exchange) parse(body []byte) (read []byte, err error) {
	if string(x.call.path()) == pathTranscriptions {
		model, err := modelOfForm(string(x.call.ctx.Request.Header.ContentType()), body)
		if err != nil {
			return nil, err
		}
		x.converted = append(openai.AppendStringField(append(x.converted[:0], '{'), "model", model), '}')
		return x.converted, x.req.Parse(x.api, x.converted)
	}
	switch x.api {
	default:
		return body, x.req.Parse(x.api, body)
	case openai.APIResponses:
		return x.prompt.turn.parse(x, body)
	case openai.APIOllama:
		return x.parseOllama(body)
	case openai.APIMessages:
	}
	var exact bool // else the prompt may differ from the worker's, and is known by its text only
	if x.converted, exact, err = anthropic.AppendChat(x.converted[:0], body, x.h.rules); err != nil {
		return nil, err
	}
	if err = x.req.Parse(x.api, x.converted); err != nil {
		return nil, err
	}
	x.req.Approximate = !exact
	return x.converted, nil
}

// parseOllama reads a body of Ollama's API.
func (x *exchange) parseOllama(body []byte) (read []byte, err error) {
	if string(x.call.path()) == pathOllamaChat {
		if x.converted, err = ollama.AppendChat(x.converted[:0], body); err != nil {
			return nil, err
		}
		return x.converted, x.req.Parse(x.api, x.converted)
	}
	var empty bool
	if x.converted, empty, err = ollama.AppendGenerate(x.converted[:0], body); err != nil {
		return nil, err
	}
	api := openai.APIGenerate
	if empty { // nothing is computed
		api, x.api = openai.APIOther, openai.APIOther
	}
	return x.converted, x.req.Parse(api, x.converted)
}

// maxFormModel bounds the name of a model in a form.
const maxFormModel = 1024

var (
	errForm      = openai.BadRequest("", "This path takes multipart/form-data, with the fields model and file.")
	errFormModel = openai.BadRequest("model", "The form names its model once, in at most 1,024 bytes.")
)

// modelOfForm returns the field "model" of a multipart form, "" without one.
func modelOfForm(contentType string, body []byte) (string, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" {
		return "", errForm
	}
	model, form := "", multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := form.NextRawPart()
		switch {
		case errors.Is(err, io.EOF):
			return model, nil
		case err != nil:
			return "", errForm
		case part.FormName() != "model":
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxFormModel+1))
		switch {
		case err != nil:
			return "", errForm
		case model != "", len(value) > maxFormModel:
			return "", errFormModel
		}
		model = string(value)
	}
}

// rulesOf returns the rules of conversion of models as clients name them.
func rulesOf(registry *worker.Registry, models *tokens.Models) chattemplate.RulesOf {
	return func(model string) chattemplate.Rules {
		if w := anyWorker(registry, model); w != nil {
			if m := models.Find(w.Info().Model()); m != nil {
				return m.Rules()
			}
		}
		return chattemplate.Rules{}
	}
}

// checkVocabulary refuses a request that is known to end an engine before any worker is asked. An
// adapter may add tokens to the model's; their number is not reported.
func (x *exchange) checkVocabulary() error {
	l := x.h.limits(x.req.Model)
	if adapterOf(&x.req) != "" {
		l.Vocabulary = 0
	}
	return x.req.Check(l)
}

// vocabularyTable has the vocabulary sizes of all models. It is made again when a worker has
// described itself.
type vocabularyTable struct {
	workers *worker.Snapshot // that the table was made of
	sizes   map[string]int   // by model
	only    int              // the size of the fleet's one model; 0 where there are several
	labels  bool             // some worker counts the clients' labels
	trust   bool             // some worker renders the clients' chat templates
}

// limits returns the limits of a model.
func (h *Handler) limits(model string) openai.Limits {
	t, workers := h.vocabulary.Load(), h.Registry.Snapshot()
	if t == nil || t.workers != workers {
		t = newVocabularyTable(workers)
		h.vocabulary.Store(t)
	}
	l := openai.Limits{Vocabulary: t.only, Labels: t.labels, Templates: t.trust}
	if n, ok := t.sizes[model]; ok {
		l.Vocabulary = n
	}
	return l
}

// newVocabularyTable reads the workers' descriptions. Where workers of one model differ the
// smallest size counts: an id above it ends an engine.
func newVocabularyTable(workers *worker.Snapshot) *vocabularyTable {
	t := &vocabularyTable{workers: workers, sizes: make(map[string]int)}
	reported, largest := 0, 0
	for _, w := range workers.Workers {
		info := w.Info()
		if info == nil {
			continue
		}
		t.labels = t.labels || info.Labels
		t.trust = t.trust || info.Tokenizer.TrustRequests
		// A model without a reported size has no limit, and not another model's.
		if info.Vocabulary == 0 {
			for _, name := range info.Models {
				t.sizes[name] += 0
			}
			continue
		}
		for _, name := range info.Models {
			if n := t.sizes[name]; n == 0 || info.Vocabulary < n {
				t.sizes[name] = info.Vocabulary
			}
		}
		if reported++; reported == 1 || info.Vocabulary < t.only {
			t.only = info.Vocabulary
		}
		largest = max(largest, info.Vocabulary)
	}
	for _, n := range t.sizes {
		if n == 0 || t.only != largest {
			t.only = 0 // several models: an unknown name may be any of them
			break
		}
	}
	return t
}
