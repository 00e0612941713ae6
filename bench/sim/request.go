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
	space   space
	prompt  []uint32
	budget  int // Most tokens of the answer.
	stop    stopRules
	stream  bool // Its handler wants to know of each token.
	home    *rank
	leg     *leg   // nil: the request is served whole.
	stalled bool   // By a fault: it is never scheduled.
	logFrom int    // First prompt token whose log probability is wanted; len(prompt): none.
	seed    uint64 // Of the answer.
	planned int    // Tokens of the answer unless a stop string cuts it.

	requestPages
	dirty    bool          // Listed in rank.dirty.
	expected int           // Prompt tokens that were cached on arrival.
	arrived  time.Duration // Simulated.

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
	computed int   // Prompt tokens whose KV is computed.
	admitted bool
}

// stopRules end an answer before its budget does.
type stopRules struct {
	ignoreEOS bool     // Answer with budget tokens, whatever the model wants.
	keep      bool     // no_stop_trim: the matched stop string stays in the text.
	texts     [][]byte // Stop strings.
	ids       []uint32
	text      []byte // Of the answer so far, kept only to look for stop strings.
}

// times are wall-clock stamps of one request.
type times struct {
	received, scheduled, first, finished time.Time
}

// finish is why an answer ended; kind "" means that it has not.
type finish struct {
	kind     string // "length", "stop" or "abort"
	matched  string // the stop string, for kind "stop"
	token    uint32 // the stop token, for kind "stop" without a string
	trim     int    // bytes of text from the matched stop string on
	hasToken bool

	status  int    // of an abort that the client is told of as an error
	message string // of an abort
	handed  bool   // a prefill leg whose keys and values have arrived: SGLang says length 0
}

// progress is the part of a request that its handler reads. Another goroutine writes it, under the
// request's mutex.
type progress struct {
	out    []uint32 // Append only, so that a copied slice header stays valid.
	cached int      // Prompt tokens found in the cache.
	reason finish
	times  times
}

// current returns a copy of the progress.
func (r *request) current() progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.progress
}

// total is how many tokens the request has in all so far, as the rank sees it.
func (r *request) total() int { return len(r.prompt) + len(r.out) }

// kv is how many tokens have their keys and values computed: the last generated
// one gets them with the next step only.
func (r *request) kv() int {
	if n := len(r.out); n > 0 {
		return len(r.prompt) + n - 1
	}
	return r.computed
}

// most is how many tokens of KV the request will need at its end.
func (r *request) most() int { return len(r.prompt) + max(0, r.planned-1) }

// all is the tokens of prompt and answer, the first n.
func (r *request) all(n int) []uint32 {
	if n <= len(r.prompt) {
		return r.prompt[:n]
	}
	t := make([]uint32, 0, n)
	t = append(t, r.prompt...)
	return append(t, r.out[:n-len(r.prompt)]...)
}

// plan decides the answer before it is generated: which words, by a seed that
// depends on the prompt alone, and how many.
func (r *request) plan() {
	r.seed = mix(uint64(len(r.prompt)))
	for _, t := range r.prompt {
		r.seed = mix(r.seed ^ uint64(t))
	}
	r.planned = r.budget
	if r.leg != nil {
		r.planned = max(1, r.budget) // SGLang's prefill always hands a token over
	}
	if !r.stop.ignoreEOS {
		// The simulated model stops by itself after 32 to 287 tokens, like a
		// chat model; the length, too, depends on the prompt alone.
		r.planned = min(r.planned, 32+int(mix(r.seed)&255))
	}
}

// stopsItself says whether the planned answer ends because the model says so.
func (r *request) stopsItself() bool { return !r.stop.ignoreEOS && r.planned < r.budget }

// generate appends the next token and says whether the answer is complete.
func (r *request) generate(now time.Time) bool {
	i := len(r.out)
	id := generated(mix(r.seed + uint64(i)))
	if i == 0 && r.leg != nil {
		id = r.leg.first // whatever the partner computed
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

// ends returns why the answer ends with token id as its nth, if it does.
func (r *request) ends(id uint32, n int) finish {
	if slices.Contains(r.stop.ids, id) {
		return finish{kind: "stop", token: id, hasToken: true}
	}
	if f := r.stop.match(id); f.kind != "" {
		return f
	}
	switch {
	case id == tokenEOS && !r.stop.ignoreEOS:
		return finish{kind: "stop", token: id, hasToken: true}
	case n >= r.planned:
		return finish{kind: "length"}
	}
	return finish{}
}

// match looks for a stop string that token id completes.
func (s *stopRules) match(id uint32) finish {
	if len(s.texts) == 0 {
		return finish{}
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
			return finish{kind: "stop", matched: string(stop), trim: trim}
		}
	}
	return finish{}
}

// end finishes the request for a reason from outside.
func (r *request) end(f finish, now time.Time) {
	r.mu.Lock()
	r.reason, r.times.finished = f, now
	if f.kind == "length" && r.times.first.IsZero() { // an answer of no tokens
		r.times.first = now
	}
	r.mu.Unlock()
}

// hand generates the one token of a prefill leg. The answer waits until the keys and
// values have arrived.
func (r *request) hand(now time.Time) {
	r.leg.first = generated(mix(r.seed))
	r.mu.Lock()
	r.out, r.times.first = append(r.out, r.leg.first), now
	r.mu.Unlock()
}

// findable is how many leading tokens of the prompt may come from the cache: one token
// is always computed, and so is each whose log probability is wanted.
func (r *request) findable() int { return min(len(r.prompt)-1, r.logFrom) }

// signal tells the handler to look; it never blocks.
func (r *request) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// mix is splitmix64's finalizer: cheap and good enough to draw words from.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
