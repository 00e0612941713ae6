package clientkey

import (
	"crypto/sha256"
	"encoding/base64"
	"math"
	"strings"
	"sync"
	"time"
)

// maxPriority is above all that clients ask for.
const maxPriority = math.MaxInt

// Key is a client.
type Key struct {
	Name string
	// Priority is the highest that its requests may have. Without HasPriority they have none.
	Priority    int
	HasPriority bool
	Deadline    time.Duration // the longest that it may name; 0: any
	OwnSalt     bool          // it names the cache salts of its prompts itself

	models      []string // nil: all
	requests    float64  // a minute; 0: any number
	tokens      float64  // a minute; 0: any number
	concurrency int      // 0: any number
	salt        string
	used        *usage
}

// usage is the use of a name, which outlives changes of the file.
type usage struct {
	mu       sync.Mutex
	requests bucket // guarded by mu, as is all below
	tokens   bucket
	counts   Counts
}

// Counts are the totals of a name.
type Counts struct {
	InFlight                 int
	Requests                 uint64 // that were let in
	PromptTokens, Completion uint64 // of answers
	Refused                  [reasonCount]uint64
}

// Reason is the limit that a request is beyond.
type Reason int

// The reasons of refusals.
const (
	ReasonRequests Reason = iota
	ReasonTokens
	ReasonConcurrency
	ReasonModel
	reasonCount
)

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{ReasonRequests, ReasonTokens, ReasonConcurrency, ReasonModel}
}

// String names the reason, in errors and metrics.
func (r Reason) String() string { return [...]string{"requests", "tokens", "concurrency", "model"}[r] }

// LimitError is a request beyond a limit of its key.
type LimitError struct {
	Reason Reason
	// Limit is that of the key, and Remaining the part of it that is left now.
	Limit, Remaining int
	// RetryAfter is the time until the limit has room for the request, and Reset until all of it is
	// there again; 0 where that is unknown.
	RetryAfter, Reset time.Duration
}

// Error names the limit.
func (e *LimitError) Error() string { return "clientkey: beyond the limit of " + e.Reason.String() }

// bucket holds the rest of a rate. The zero value is full.
type bucket struct {
	missing float64 // of a minute's worth, at the time at; more than all of it: a debt
	at      time.Time
}

// fill refills a bucket of so much a minute.
func (b *bucket) fill(now time.Time, rate float64) {
	if since := now.Sub(b.at); since > 0 {
		b.missing, b.at = max(b.missing-rate*since.Minutes(), 0), now
	}
}

// refusal returns an error where the bucket has less than need.
func (b *bucket) refusal(why Reason, rate, need float64) *LimitError {
	lacks := need - (rate - b.missing)
	if lacks <= 0 {
		return nil
	}
	after := func(n float64) time.Duration { return time.Duration(n / rate * float64(time.Minute)) }
	return &LimitError{
		Reason: why, Limit: int(rate), Remaining: int(max(rate-b.missing, 0)), RetryAfter: after(lacks), Reset: after(b.missing),
	}
}

// Begin lets a request in, for which End is called at its end.
func (k *Key) Begin(now time.Time) error {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	var beyond *LimitError
	if k.concurrency > 0 && u.counts.InFlight >= k.concurrency {
		beyond = &LimitError{Reason: ReasonConcurrency, Limit: k.concurrency, RetryAfter: time.Second}
	}
	if k.tokens > 0 && beyond == nil {
		u.tokens.fill(now, k.tokens)
		beyond = u.tokens.refusal(ReasonTokens, k.tokens, 1)
	}
	if k.requests > 0 && beyond == nil {
		u.requests.fill(now, k.requests)
		if beyond = u.requests.refusal(ReasonRequests, k.requests, 1); beyond == nil {
			u.requests.missing++
		}
	}
	if beyond != nil {
		u.counts.Refused[beyond.Reason]++
		return beyond
	}
	u.counts.InFlight++
	u.counts.Requests++
	return nil
}

// End gives back the place of a request that Begin has let in.
func (k *Key) End() {
	k.used.mu.Lock()
	defer k.used.mu.Unlock()
	k.used.counts.InFlight--
}

// Take takes the tokens of a prompt. One that is longer than a minute's worth waits until all of
// that is there.
func (k *Key) Take(now time.Time, prompt int) error {
	if k.tokens == 0 {
		return nil
	}
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tokens.fill(now, k.tokens)
	if beyond := u.tokens.refusal(ReasonTokens, k.tokens, min(float64(prompt), k.tokens)); beyond != nil {
		u.counts.Refused[ReasonTokens]++
		return beyond
	}
	u.tokens.missing += float64(prompt)
	return nil
}

// Answered counts the tokens of an answer. taken are those that Take took for it.
func (k *Key) Answered(now time.Time, taken, prompt, completion int) {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.PromptTokens += uint64(prompt)
	u.counts.Completion += uint64(completion)
	k.giveLocked(now, taken-prompt-completion)
}

// GiveBack gives back the tokens of a request that no worker computes.
func (k *Key) GiveBack(now time.Time, taken int) {
	k.used.mu.Lock()
	defer k.used.mu.Unlock()
	k.giveLocked(now, taken)
}

func (k *Key) giveLocked(now time.Time, tokens int) {
	if k.tokens > 0 {
		b := &k.used.tokens
		b.fill(now, k.tokens)
		b.missing = max(b.missing-float64(tokens), 0)
	}
}

// Limited reports whether the key names the models that it may use.
func (k *Key) Limited() bool { return k.models != nil }

// Allows reports whether the key may use a model, which may be "base:adapter". adapter is one that
// is named apart from its base; "": there is none.
func (k *Key) Allows(model, adapter string) bool {
	if k.models == nil {
		return true
	}
	for _, name := range k.models {
		rest, ok := strings.CutPrefix(name, model)
		if adapter != "" && ok {
			rest, ok = strings.CutPrefix(rest, ":")
		}
		if ok && rest == adapter {
			return true
		}
	}
	return false
}

// SaltPrefix begins the cache salts of keys.
const SaltPrefix = "warmpath-"

// Salt returns the cache salt of the key's prompts, by which engines keep the pages of others from
// them. It is the same in all routers. own parts the key's cache further, as its client asks; nil:
// it does not ask.
func (k *Key) Salt(own []byte) string {
	if own == nil {
		return k.salt
	}
	return saltOf(k.Name, own)
}

func saltOf(name string, own []byte) string {
	text := append([]byte("warmpath cache salt 1\x00"), name...) // a name has no zero byte
	if own != nil {
		text = append(append(text, 0), own...)
	}
	sum := sha256.Sum256(text)
	return SaltPrefix + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Refuse counts a request for a model that the key may not use.
func (k *Key) Refuse() {
	k.used.mu.Lock()
	defer k.used.mu.Unlock()
	k.used.counts.Refused[ReasonModel]++
}

// Counts returns the totals of the key's name.
func (k *Key) Counts() Counts {
	k.used.mu.Lock()
	defer k.used.mu.Unlock()
	return k.used.counts
}
