package openai

// API says which route a body was sent to.
type API uint8

const (
	// APIOther is embeddings, rerank, responses: forwarded, and read for model, stream and rid only.
	APIOther API = iota
	// APIGenerate is SGLang's /generate.
	APIGenerate
	// APICompletions is /v1/completions.
	APICompletions
	// APIChat is /v1/chat/completions.
	APIChat
)

// Memory remembers lists of token ids that were read before.
type Memory interface {
	// Recall appends to ids those with which raw begins, as far as they are known, and returns how many bytes of raw they take:
	// none, or up to and with a comma. raw is a list from its first element on, and whatever follows it.
	Recall(ids []uint32, raw []byte) (known []uint32, n int)
	// Learn is told the list that the last Recall was asked about, when it turned out to be one: from its first element
	// to its bracket, with all of its ids. It keeps neither.
	Learn(raw []byte, ids []uint32)
}

// Request is what routing reads from a body. The zero value is ready; reuse it with Parse, which
// keeps its memory.
type Request struct {
	// API is the route that the body was parsed for.
	API API
	// Model is the body's "model" as it stands; see SplitModel for base:adapter names.
	Model string
	// Stream says that the answer is SSE.
	Stream bool
	// IncludeUsage is stream_options.include_usage.
	IncludeUsage bool

	// InputIDs are the prompt's token ids; of a batch, the first prompt's. HasIDs says that the
	// body carried ids, which then win over text, as they do in the worker.
	InputIDs []uint32
	HasIDs   bool
	// Text is the prompt as text with its escapes resolved; of a batch, the first prompt's. A lone
	// surrogate escape reads as U+FFFD.
	Text []byte
	// HasText tells an empty text from none.
	HasText bool
	// Prompt is the raw JSON string that Text was read from, nil when there is none.
	Prompt []byte
	// RawModel, Messages, Tools and TemplateKwargs are raw JSON; nil when absent or null.
	RawModel, Messages, Tools, TemplateKwargs []byte

	// Batch says that the prompt is a list of prompts, even a list of one. N > 1 is not a batch.
	Batch bool
	// Prompts is the number of prompts: 1, or the batch's length.
	Prompts int
	// N is the number of answers for each prompt: "n", or sampling_params.n. At least 1.
	N int
	// Multimodal says that ids or text do not tell the whole prompt: images, audio, video, or
	// content parts of a kind not known to be text, or input_embeds.
	Multimodal bool
	// MaxTokens is the most tokens to generate, 0 when the body does not say (or says it in a
	// form that the worker must judge).
	MaxTokens int

	// PromptLogprobs says that the answer has log probabilities of the prompt, or may have: return_logprob of /generate, logprobs
	// with echo of completions. What has none but looks so costs time only.
	PromptLogprobs bool
	// Computed says that the worker computes the prompt from token ComputedFrom on whatever its cache holds, because the answer has
	// the log probabilities of these tokens.
	Computed     bool
	ComputedFrom int

	// RID is the request id that the client chose, RIDs the list of a batch. HasRID is false for an id that
	// is null or empty, or by which others would be aborted: the router's own one replaces it.
	RID    string
	RIDs   []string
	HasRID bool

	// LoRA, CacheSalt and ExtraKey part the caches of equal prompts. Lists (batches) read as their
	// first element.
	LoRA, CacheSalt, ExtraKey string
	// SessionID is session_id, or else session_params.id.
	SessionID   string
	Priority    int
	HasPriority bool
	// Rank is routed_dp_rank, or else its old name data_parallel_rank.
	Rank    int
	HasRank bool

	// Memory, if any, is asked for the ids of a prompt that is one list of them. It outlives Reset.
	Memory Memory

	body   []byte
	spans  [fieldCount]span
	prompt list        // of "prompt" or "text"
	ids    list        // of "input_ids"
	maxID  uint32      // of all prompts' ids
	chat   chat        // of "messages"
	text   []byte      // unescaped text
	key    []byte      // unescaped key or short string
	shape  []Field     // reused by PromptFields
	model  string      // of the body before
	long   *longMemory // what InputIDs are in, where they are too many to stay
}

// span is a half-open range of the body; hi == 0 means absent.
type span struct{ lo, hi int }

// Field is one member of a JSON object: its name and the raw JSON of its value.
type Field struct {
	Name string
	Raw  []byte
}

const (
	// maxKept is the longest model name that is kept from one body to the next.
	maxKept = 128
	// keptIDs and keptText bound the memory that is: 1 MiB each, a prompt of 262,144 ids. What one longer prompt took would stay with each
	// request that a server pools.
	keptIDs  = 256 << 10
	keptText = 1 << 20
)

// Reset forgets the last body, so that a pooled Request does not keep it alive.
func (r *Request) Reset() {
	model := r.model
	if n := len(r.Model); n > 0 && n <= maxKept {
		model = r.Model
	}
	r.giveBack()
	*r = Request{
		InputIDs: emptied(r.InputIDs, keptIDs),
		text:     emptied(r.text, keptText),
		key:      emptied(r.key, keptText),
		shape:    clearFields(r.shape),
		Memory:   r.Memory,
		model:    model,
	}
}

// emptied returns the memory of s, where it is of at most limit elements.
func emptied[T any](s []T, limit int) []T {
	if cap(s) > limit {
		return nil
	}
	return s[:0]
}

func clearFields(f []Field) []Field {
	clear(f[:cap(f)])
	return f[:0]
}

// PromptFields returns the members of a chat body, other than model and messages, that the worker's
// template may read. They decide the prompt's ids together with the messages. The order is fixed;
// the result is valid until the next call or Parse.
func (r *Request) PromptFields() []Field {
	r.shape = r.shape[:0]
	for f := fieldTools; f <= lastShapeField; f++ {
		if raw := r.raw(f); raw != nil {
			r.shape = append(r.shape, Field{Name: f.name(), Raw: raw})
		}
	}
	return r.shape
}
