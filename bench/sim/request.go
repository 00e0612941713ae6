package sim

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// request is one sequence: a prompt with one answer. The fields above mu belong to the handler
// before submission and to the rank's goroutine after it.
type request struct {
	id      string
	domain  domain
	prompt  []uint32
	budget  int // Most tokens of the answer.
	stop    stopRules
	stream  bool // Its handler wants to know of each token.
	home    *rank
	leg     *leg   // nil: the request is served whole.
	stalled bool   // By a fault: it is never scheduled.
	logFrom int    // First prompt token with a log probability; len(prompt): none.
	seed    uint64 // Of the answer.
	planned int    // Tokens of the answer unless a stop string cuts it.

	requestPages
	changed  bool // Listed in rank.changed.
	expected int  // Prompt tokens that were cached on arrival.

	wake chan struct{} // Capacity 1: the progress has changed.

	answered time.Time // First event written; the handler's.

	mu sync.Mutex
	progress
}

// requestPages are the pages of a request in its rank's KV pool.
type requestPages struct {
	lock     *node // End of the locked path in the cache.
	inTree   int   // Pages of that path.
	allotted int   // Pages that the request holds, in the tree or outside it.
	computed int   // Prompt tokens with computed KV.
	admitted bool
}

// stopRules end an answer before its budget does.
type stopRules struct {
	ignoreEOS bool     // Generate budget tokens, without end-of-sequence.
	keep      bool     // no_stop_trim: the matched stop string stays in the text.
	texts     [][]byte // Stop strings.
	ids       []uint32
	text      []byte // Of the answer so far, kept only to look for stop strings.
}

// times are wall-clock stamps of one request.
type times struct {
	received, scheduled, first, finished time.Time
}

// finishReason is the reason why an answer ended; kind is "" before.
type finishReason struct {
	kind     string // "length", "stop" or "abort"
	matched  string // Stop string, for kind "stop".
	token    uint32 // Stop token, for kind "stop" without a string.
	trim     int    // Bytes of text from the matched stop string on.
	hasToken bool

	status  int    // Of an abort that is an error for the client.
	message string // Of an abort.
	handed  bool   // Prefill leg with a finished transfer: SGLang reports length 0.
}

// progress is the part of a request that its handler reads. Another goroutine writes it, under
// the request's mutex.
type progress struct {
	out    []uint32 // Append only, so that a copied slice header stays valid.
	cached int      // Prompt tokens found in the cache.
	reason finishReason
	times  times
}

// current returns a copy of the progress.
func (r *request) current() progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// total returns the number of tokens so far, for the rank's goroutine.
func (r *request) total() int { return len(r.prompt) + len(r.out) }

// kv returns the number of tokens with computed keys and values: the last generated token gets
// them with the next step.
func (r *request) kv() int {
	if n := len(r.out); n > 0 {
		return len(r.prompt) + n - 1
	}
	return r.computed
}

// most returns the number of KV tokens at the request's end.
func (r *request) most() int { return len(r.prompt) + max(0, r.planned-1) }

// all returns the first n tokens of prompt and answer.
func (r *request) all(n int) []uint32 {
	if n <= len(r.prompt) {
		return r.prompt[:n]
	}
	t := make([]uint32, 0, n)
	t = append(t, r.prompt...)
	return append(t, r.out[:n-len(r.prompt)]...)
}

// plan decides the words and length of the answer before it is generated. Both depend on the
// prompt alone.
func (r *request) plan() {
	r.seed = mix(uint64(len(r.prompt)))
	for _, t := range r.prompt {
		r.seed = mix(r.seed ^ uint64(t))
	}
	r.planned = r.budget
	if r.leg != nil {
		r.planned = max(1, r.budget) // SGLang's prefill always passes a token on.
	}
	if !r.stop.ignoreEOS {
		// The simulated model stops after 32 to 287 tokens, like a chat model.
		r.planned = min(r.planned, 32+int(mix(r.seed)&255))
	}
}

// stopsItself reports whether the planned answer ends with an end-of-sequence token.
func (r *request) stopsItself() bool { return !r.stop.ignoreEOS && r.planned < r.budget }

// generate appends the next token and reports whether the answer is complete.
func (r *request) generate(now time.Time) bool {
	i := len(r.out)
	id := generatedToken(mix(r.seed + uint64(i)))
	if i == 0 && r.leg != nil {
		id = r.leg.first // From the prefill leg.
	}
	if i == r.planned-1 && r.stopsItself() {
		id = tokenEOS
	}
	done := r.ends(id, i+1)
	r.mu.Lock()
	r.out = append(r.out, id)
	if i == 0 {
		r.times.first = now
	}
	if done.kind != "" {
		r.reason, r.times.finished = done, now
	}
	r.mu.Unlock()
	return done.kind != ""
}

// ends returns the reason why token id, the nth, ends the answer, if it does.
func (r *request) ends(id uint32, n int) finishReason {
	if slices.Contains(r.stop.ids, id) {
		return finishReason{kind: "stop", token: id, hasToken: true}
	}
	if f := r.stop.match(id); f.kind != "" {
		return f
	}
	switch {
	case id == tokenEOS && !r.stop.ignoreEOS:
		return finishReason{kind: "stop", token: id, hasToken: true}
	case n >= r.planned:
		return finishReason{kind: "length"}
	}
	return finishReason{}
}

// match looks for a stop string that ends with token id.
func (s *stopRules) match(id uint32) finishReason {
	if len(s.texts) == 0 {
		return finishReason{}
	}
	before := len(s.text)
	s.text = appendToken(s.text, id)
	for _, stop := range s.texts {
		from := max(0, before-len(stop)+1)
		if at := bytes.Index(s.text[from:], stop); at >= 0 {
			trim := len(s.text) - from - at
			if s.keep {
				trim = 0
			}
			return finishReason{kind: "stop", matched: string(stop), trim: trim}
		}
	}
	return finishReason{}
}

// end finishes the request for a reason outside its tokens.
func (r *request) end(f finishReason, now time.Time) {
	r.mu.Lock()
	r.reason, r.times.finished = f, now
	if f.kind == "length" && r.times.first.IsZero() { // An empty answer.
		r.times.first = now
	}
	r.mu.Unlock()
}

// hand generates the one token of a prefill leg. The answer waits for the transfer.
func (r *request) hand(now time.Time) {
	r.leg.first = generatedToken(mix(r.seed))
	r.mu.Lock()
	r.out, r.times.first = append(r.out, r.leg.first), now
	r.mu.Unlock()
}

// findable returns how many leading prompt tokens may come from the cache: the last token is
// always computed, and so are tokens with a log probability.
func (r *request) findable() int { return min(len(r.prompt)-1, r.logFrom) }

// signal wakes the handler without blocking.
func (r *request) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// mix is splitmix64's finalizer, good enough to draw words from.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
