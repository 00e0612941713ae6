package routing

import (
	"slices"
	"strings"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
	"github.com/warmpath/warmpath/dataplane/routing/policy"
	"github.com/warmpath/warmpath/dataplane/routing/turns"
	"github.com/warmpath/warmpath/radix"
)

// Prompt is the part of a request that routing needs.
type Prompt struct {
	Name     []byte // of the request, for Router.Recent
	Model    string // as the client named it; "" for the only one, or with AnyModel for any
	Tokens   []uint32
	Hashes   []radix.Hash // of leading blocks of Tokens, as far as they are known
	Block    int          // tokens in a block of Hashes
	Exact    bool         // Tokens are the ids that the engine will see
	Estimate int          // tokens, when they are not known exactly
	Rest     int          // tokens behind Tokens, of several prompts that begin with them
	Text     []byte       // source of the ids, when they are not known
	LoRA     string
	Salt     string
	ExtraKey string // no event names it: such prompts are known by their answers only
	// Opaque prompts (images) are cached by more than their tokens: they claim no
	// overlap.
	Opaque bool
	// Computed prompts are computed by the engine from token ComputedFrom on, despite its
	// cache.
	Computed     bool
	ComputedFrom int
	// Worker restricts the choice to one worker, which holds more of the request than its cache;
	// nil is any.
	Worker *worker.Worker
	// DP restricts the choice to one data-parallel rank of each worker; -1 is any.
	DP int
	// Session is the key of the session that the client names, see NameSession; 0 is none.
	Session       uint64
	SessionSource SessionSource // of Session
	// Output bounds the tokens of all answers, as the client asks; 0 is unknown.
	Output int
	// MaxTokens bounds the tokens of one answer, as the client asks; 0 is unknown.
	MaxTokens int
	// AnyModel requests are not about a model.
	AnyModel bool
	// Unpaired requests cannot be served by a pair, only by one worker alone.
	Unpaired bool
}

// Len returns the number of prompt tokens, estimated when they are not known, without Rest.
func (p *Prompt) Len() int {
	if p.Exact {
		return len(p.Tokens)
	}
	return p.Estimate
}

// exceeds reports whether a worker whose model takes so many tokens refuses the prompt, with an
// answer of the length that the client allows: TokenizerManager._validate_one_request of SGLang.
// Workers of one model may differ in --context-length. most 0 is unknown.
func (p *Prompt) exceeds(most int) bool {
	n := len(p.Tokens)
	return p.Exact && most > 0 && (n >= most || n+p.MaxTokens > most)
}

// NameSession sets the session by the name that the client gives it. Equal names for different
// models, adapters or salts are different sessions: their prompts share no pages.
func (p *Prompt) NameSession(name []byte, from SessionSource) {
	if p.Session, p.SessionSource = p.sessionKey(SessionKey(name)), from; len(name) == 0 {
		p.SessionSource = NoSession
	}
}

// sessionKey returns the key of a session of this prompt's model, adapter and salts.
func (p *Prompt) sessionKey(name uint64) uint64 {
	if name == 0 {
		return 0
	}
	for _, part := range [...]string{p.Model, p.LoRA, p.Salt, p.ExtraKey} {
		name = scatter(name + SessionKey(part))
	}
	return max(name, 1)
}

// Decision is the choice for a request, with its explanation.
type Decision struct {
	// Of a pair, the prefill rank: all fields but DecodeChoice are about it.
	Rank         *worker.Rank
	Decode       *worker.Rank // decode rank of a pair; nil: the request goes to Rank alone
	Matched      int          // leading blocks of the prompt that Rank holds
	Total        int          // whole blocks of the prompt
	PromptTokens int          // exact or estimated
	Cached       int          // prompt tokens expected from the prefix cache
	Predicted    int          // prompt tokens that requests in flight there have cached, or will
	Fetch        Fetch        // prompt tokens expected from KV tiers
	Exact        bool
	// Overruled is the worst fault among the candidates, where facts about GPUs exclude all
	// ranks.
	Overruled    GPUFault
	Source       Source // of Matched and Cached; unless it is Events, they are estimates
	Choice       policy.Choice
	DecodeChoice policy.Choice // where Decode is not nil
	// Turn is the prompt's place in its session; of a new session or branch, complete after
	// Dispatch.
	Turn turns.Turn

	output  int
	block   int // tokens in a block of a prediction; 0: the prompt cannot be predicted
	scope   radix.Scope
	learnt  learnt
	told    int   // Cached by the rank's events alone, where matched
	ahead   int64 // tokens that Rank had to compute before it
	removed int64 // worker.EventCheck.Removed at the choice
	matched bool  // the index was asked
	session sessionUse
	tried   int64 // unix nanoseconds of the trials of half-open breakers; 0: none was taken
}

// GiveBack gives back the trial of a rank's half-open breaker: the request is not sent there.
func (d *Decision) GiveBack(rank *worker.Rank) {
	if d.tried != 0 {
		rank.Worker.Breaker.GiveBack(d.tried)
	}
}

// Uncached returns the prompt tokens that the rank is expected to compute.
func (d *Decision) Uncached() int { return d.PromptTokens - max(d.Cached, d.Predicted, d.Fetch.upto) }

// Work returns the request as it counts in its rank's load. output bounds the tokens of its
// answers, 0 unknown. sure: no more than the decision's prompt tokens are computed.
func (d *Decision) Work(output int, sure bool) worker.Work {
	return worker.Work{
		Uncached: d.Uncached(), Fetched: d.Fetch.Tokens(), Prompt: d.PromptTokens, Output: output, Guessed: !sure,
		Exact: d.Exact && d.Source == Events,
	}
}

// usualOutput bounds the expected tokens of an answer: clients ask for the most that they
// accept, and answers have 350 tokens in the mean of the conversation trace. SGLang reserves
// 512 (num_reserved_decode_tokens).
const usualOutput = 512

// DecodeTokens returns the tokens that the request takes of the decode rank's pool, for
// Load.BeginDecode.
func (d *Decision) DecodeTokens() int {
	if d.output > 0 {
		return d.PromptTokens + min(d.output, usualOutput)
	}
	return d.PromptTokens + usualOutput
}

// Wildcard reports whether a request leaves the model open. SGLang's documentation has clients
// send "default".
func Wildcard(model string) bool { return model == "" || model == "default" }

// Serves reports whether a worker with this description takes requests for model, which may
// name an adapter as "base:adapter".
func Serves(info *worker.Info, model string) bool {
	if Wildcard(model) || len(info.Models) == 0 || slices.Contains(info.Models, model) {
		return true
	}
	base, _, ok := strings.Cut(model, ":")
	return ok && slices.Contains(info.Models, base)
}

// pageSize returns the tokens in a page of a worker's prefix cache.
func pageSize(info *worker.Info) int {
	if info.Events != nil && info.Events.BlockSize > 0 {
		return info.Events.BlockSize
	}
	return info.PageSize
}
