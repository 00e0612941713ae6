package openai

import "strings"

// API is the route of a body.
type API uint8

const (
	// APIOther is embeddings, rerank and others: forwarded, and read for model, stream and rid
	// only.
	APIOther API = iota
	// APIGenerate is SGLang's /generate.
	APIGenerate
	// APICompletions is /v1/completions.
	APICompletions
	// APIChat is /v1/chat/completions.
	APIChat
	// APIMessages is Anthropic's /v1/messages. Its bodies are converted to chats before they are
	// parsed.
	APIMessages
	// APIResponses is /v1/responses. Its bodies are converted to chats before they are parsed.
	APIResponses
	// APIOllama is Ollama's /api/chat and /api/generate. Bodies of the one are converted to chats
	// before they are parsed, and those of the other to bodies of APIGenerate.
	APIOllama
)

// String names the API, for logs.
func (a API) String() string {
	return [...]string{"other", "generate", "completions", "chat", "messages", "responses", "ollama"}[a]
}

// isChat reports whether a body that was sent to the API is read as a chat.
func (a API) isChat() bool { return a >= APIChat }

// Request is a body as routing reads it, or the chat that it was converted to. The zero value is
// ready; reuse it with Parse, which keeps its memory.
type Request struct {
	// API is the route that the body was parsed for.
	API API
	// Model is the body's "model" as it stands; see SplitModel for base:adapter names.
	Model string
	Input
	Answer
	Routing
	// Approximate reports a chat whose prompt may differ from the worker's: it was converted from
	// another API's body, with doubt. It is known by its text only.
	Approximate bool

	document
	prompt         promptValue // of "prompt" or "text"
	ids            promptValue // of "input_ids"
	chat           messages    // of "messages"
	text           []byte      // unescaped text
	templateFields []Field     // reused by PromptFields
}

// Field is one member of a JSON object: its name and the raw JSON of its value.
type Field struct {
	Name string
	Raw  []byte
}

const (
	// maxModelName is the longest model name that is kept from one body to the next.
	maxModelName = 128
	// maxPooledIDs and maxPooledText bound the memory that is kept: 1 MiB each, a prompt of 262,144
	// ids. The memory of one longer prompt would stay with each request that a server pools.
	maxPooledIDs  = 256 << 10
	maxPooledText = 1 << 20
)

// Reset forgets the last body, so that a pooled Request does not keep it alive.
func (r *Request) Reset() {
	model := r.model
	if n := len(r.Model); n > 0 && n <= maxModelName {
		model = r.Model
	}
	r.releaseLong()
	ids, key, name := reusable(r.InputIDs, maxPooledIDs), reusable(r.key, maxPooledText), reusable(r.name, maxPooledText)
	text, fields := reusable(r.text, maxPooledText), clearedFields(r.templateFields)
	*r = Request{}
	r.InputIDs, r.key, r.name, r.model, r.text, r.templateFields = ids, key, name, model, text, fields
}

// reusable returns the memory of s, where it is of at most limit elements.
func reusable[T any](s []T, limit int) []T {
	if cap(s) > limit {
		return nil
	}
	return s[:0]
}

func clearedFields(f []Field) []Field {
	clear(f[:cap(f)])
	return f[:0]
}

// PromptFields returns the members of a chat body, other than model and messages, that the worker's
// template may read. They decide the prompt's ids together with the messages. The order is fixed;
// the result is valid until the next call or Parse.
func (r *Request) PromptFields() []Field {
	r.templateFields = r.templateFields[:0]
	for f := fieldTools; f <= lastTemplateField; f++ {
		if raw := r.raw(f); raw != nil {
			r.templateFields = append(r.templateFields, Field{Name: fieldNames[f], Raw: raw})
		}
	}
	return r.templateFields
}

// HasBody reports whether a body was parsed.
func (r *Request) HasBody() bool { return len(r.body) > 0 }

// Check refuses requests that are known to end an SGLang engine, with all its running requests.
// Each rule is a row of bench/engines/testdata/killers.jsonl, which records the behaviour of a real
// engine. The worker judges all else.
func (r *Request) Check(l Limits) error {
	if labels := r.raw(fieldCustomLabels); !l.Labels && r.API == APIGenerate && len(labels) > len(`{}`) {
		return BadRequest("custom_labels", "custom_labels are not counted by any worker.")
	}
	return asError(checkRequest(r, l.Vocabulary))
}

// RawCacheSalt returns the JSON of cache_salt; nil where it has none. It is valid until the next
// Parse.
func (r *Request) RawCacheSalt() []byte {
	raw := r.raw(fieldCacheSalt)
	if len(raw) == len(`""`) {
		return nil
	}
	return raw
}

// SaltBegins reports whether cache_salt, or a salt in its list, begins with prefix.
func (r *Request) SaltBegins(prefix string) (begins bool) {
	raw := r.raw(fieldCacheSalt)
	if raw == nil || raw[0] != '[' {
		return strings.HasPrefix(r.CacheSalt, prefix)
	}
	_, _ = Elements(raw, 0, func(lo, hi int) {
		begins = begins || raw[lo] == '"' && strings.HasPrefix(r.stringOf(raw[lo:hi]), prefix)
	})
	return begins
}

// ManyAdapters reports whether lora_path is a list, of which LoRA is the first.
func (r *Request) ManyAdapters() bool {
	raw := r.raw(fieldLoRAPath)
	return raw != nil && raw[0] == '['
}
