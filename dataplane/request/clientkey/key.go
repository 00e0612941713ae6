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
	group *group

	mu        sync.Mutex
	requests  bucket // guarded by mu, as is all below
	tokens    bucket
	counts    Counts
	elsewhere int  // requests under way at other routers
	claimed   int  // the same, of routers with other tokens
	told      int  // requests under way here that other routers know of
	telling   bool // the next message tells of it
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
	// Limit is the key's limit, and Remaining the part of it that is left now.
	Limit, Remaining int
	// RetryAfter is the time until the limit has room for the request, and Reset until all of it is
	// there again; 0 where that is unknown.
	RetryAfter, Reset time.Duration

	untold bool // there is room once the other routers know of the use here
}

// Error names the limit.
func (e *LimitError) Error() string { return "clientkey: beyond the limit of " + e.Reason.String() }

// bucket holds the rest of a rate. The zero value is full.
type bucket struct {
	missing float64 // of a minute's worth, at the time at; more than all of it: a debt
	claimed float64 // missing besides, by the word of routers with other tokens
	untold  float64 // the part of it that other routers do not know of yet
	used    float64 // here, since the start of the process
	at      time.Time
}

// fill refills a bucket of so much a minute, which routers share. Without a rate nothing is
// missing. The claims of other owners get their shares of it at most, unless the rest is full.
func (b *bucket) fill(now time.Time, rate float64, by sharers) {
	if rate == 0 {
		b.missing, b.claimed, b.untold = 0, 0, 0
	}
	if since := now.Sub(b.at); since > 0 {
		back := rate * since.Minutes()
		b.untold, b.at = max(b.untold-back/by.routers, 0), now
		own := max(back/by.owners, back-b.claimed)
		left := max(own-b.missing, 0)
		b.missing, b.claimed = max(b.missing-own, 0), max(b.claimed-(back-own)-left, 0)
	}
}

// take takes from the bucket; less than 0 is given back.
func (b *bucket) take(n float64) {
	b.missing, b.untold, b.used = max(b.missing+n, 0), max(b.untold+n, 0), b.used+n
}

// told notes that other routers know of so much that is used here.
func (b *bucket) told(used float64) { b.untold = max(min(b.untold, b.used-used), 0) }

// refusal returns an error where the bucket has less than need.
func (b *bucket) refusal(why Reason, rate, need float64, by sharers) *LimitError {
	missing := b.missing + b.claimed
	rest := rate - missing
	lacks := need - rest
	untold := lacks <= 0
	if untold && !beyondShare(b.untold, rest, by.routers) {
		return nil
	}
	after := func(n float64) time.Duration { return time.Duration(max(n, 0) / rate * float64(time.Minute)) }
	return &LimitError{
		Reason: why, Limit: int(rate), Remaining: int(max(rest, 0)), RetryAfter: after(lacks), Reset: after(missing), untold: untold,
	}
}

// beyondShare reports whether this router has let in its share of a limit since it last told the
// others: an equal part of the rest at that time. So all routers together exceed the limit by one
// request each at most while no message reaches them.
func beyondShare(untold, rest, routers float64) bool {
	return routers > 1 && untold >= (rest+untold)/routers
}

// Begin lets a request in, for which End is called at its end. Where the key has room, and only the
// other routers do not know yet how much of it is used here, it waits for them, maxWait at most.
func (k *Key) Begin(now time.Time) error { return k.admit(now, k.begin) }

func (k *Key) begin(now time.Time) *LimitError {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	by := u.group.sharers()
	if k.concurrency > 0 {
		// Routers with other tokens leave the share of this one's.
		claimed := min(u.claimed, int(by.others(float64(k.concurrency))))
		rest, untold := k.concurrency-u.counts.InFlight-u.elsewhere-claimed, u.counts.InFlight-u.told
		if rest <= 0 || beyondShare(float64(untold), float64(rest), by.routers) {
			return &LimitError{Reason: ReasonConcurrency, Limit: k.concurrency, RetryAfter: time.Second, untold: rest > 0}
		}
	}
	if k.tokens > 0 {
		u.tokens.fill(now, k.tokens, by)
		if beyond := u.tokens.refusal(ReasonTokens, k.tokens, 1, by); beyond != nil {
			return beyond
		}
	}
	if k.requests > 0 {
		u.requests.fill(now, k.requests, by)
		if beyond := u.requests.refusal(ReasonRequests, k.requests, 1, by); beyond != nil {
			return beyond
		}
		u.requests.take(1)
	}
	u.counts.InFlight++
	u.counts.Requests++
	k.changedLocked()
	return nil
}

// admit tries again each time the others have heard of the use here, while that is all that is
// missing, and counts a refusal.
func (k *Key) admit(now time.Time, try func(now time.Time) *LimitError) error {
	var timeout <-chan time.Time
	for {
		told := k.used.group.nextTold()
		beyond := try(now)
		if beyond == nil {
			return nil
		}
		if beyond.untold {
			if timeout == nil {
				timer := time.NewTimer(maxWait)
				defer timer.Stop()
				timeout = timer.C
			}
			select {
			case <-told:
				continue
			case <-timeout:
			}
		}
		k.used.mu.Lock()
		k.used.counts.Refused[beyond.Reason]++
		k.used.mu.Unlock()
		return beyond
	}
}

// End gives back the place of a request that Begin has let in.
func (k *Key) End() {
	u := k.used
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts.InFlight--
	u.told = min(u.told, u.counts.InFlight)
	k.changedLocked()
}

// Take takes the tokens of a prompt. One that is longer than a minute's worth waits until all of
// that is there. It waits for the other routers as Begin does.
func (k *Key) Take(now time.Time, prompt int) error {
	if k.tokens == 0 {
		return nil
	}
	return k.admit(now, func(now time.Time) *LimitError {
		u := k.used
		u.mu.Lock()
		defer u.mu.Unlock()
		by := u.group.sharers()
		u.tokens.fill(now, k.tokens, by)
		// Of other owners' claims there may never be room for a longer one.
		need := min(float64(prompt), k.tokens-by.others(k.tokens))
		if beyond := u.tokens.refusal(ReasonTokens, k.tokens, need, by); beyond != nil {
			return beyond
		}
		u.tokens.take(float64(prompt))
		k.changedLocked()
		return nil
	})
}

// Answered counts the tokens of an answer. taken is the number of tokens that Take took for it.
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
	if k.tokens > 0 && tokens != 0 {
		b := &k.used.tokens
		b.fill(now, k.tokens, k.used.group.sharers())
		b.take(-float64(tokens))
		k.changedLocked()
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
