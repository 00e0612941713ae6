package tokens

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// rest keeps a part of a model, its tokenizer or its template, from further prompts after one that
// took it beyond its limits. The limits are far above what any prompt takes with real files, but a
// regular expression may be quadratic in an odd text. So the part is tried again: a client's one
// prompt should not end it for all others, and a hostile file costs a second of CPU an hour.
type rest struct {
	until atomic.Int64 // Unix nanoseconds; 0: it never exceeded a limit

	mu    sync.Mutex
	times uint64 // guarded by mu, as is err
	err   error  // the first
}

const (
	firstRest   = time.Minute // doubled each time
	longestRest = time.Hour
)

// errResting means that a part of the model exceeded its limits recently.
var errResting = fmt.Errorf("%w: it exceeded its limits recently", ErrUnavailable)

// rests reports whether the part is not to be used now.
func (r *rest) rests(now func() time.Time) bool {
	until := r.until.Load()
	return until != 0 && now().UnixNano() < until
}

// exceeded notes that a prompt exceeded the limits, and reports whether it was the first. Prompts
// that ran at once with another one count with it.
func (r *rest) exceeded(now func() time.Time, err error) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rests(now) {
		return false
	}
	if r.times++; r.times == 1 {
		r.err = brief(err)
	}
	pause := longestRest
	if doubled := r.times - 1; doubled < 6 {
		pause = min(firstRest<<doubled, longestRest)
	}
	r.until.Store(now().Add(pause).UnixNano())
	return r.times == 1
}

// reason names the limit that the part exceeded, "" while it never did.
func (r *rest) reason(part string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.times == 0 {
		return ""
	}
	until := time.Unix(0, r.until.Load()).UTC().Format(time.RFC3339)
	return fmt.Sprintf("the %s exceeded its limits (%d times; left to the workers until %s): %s", part, r.times, until, r.err)
}
