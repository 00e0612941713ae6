package policies

import (
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// Segment is a run of tokens with one name: equal ids stand for equal tokens, position by
// position. A shorter segment of the same id is a prefix of the longer one.
type Segment struct {
	ID     uint64
	Tokens int
}

// Request is one request of a trace.
type Request struct {
	At     time.Duration // since the trace's first moment
	Prompt []Segment
	Output int    // tokens of the answer, at least 1
	Answer uint64 // segment id of the answer in later prompts; 0: it is in none
	// Session is the number of the conversation; 0: it is not known.
	Session uint64
}

// Input returns the prompt's length in tokens.
func (r *Request) Input() (n int) {
	for _, s := range r.Prompt {
		n += s.Tokens
	}
	return n
}

// answerBit marks ids of answers that a trace does not name. Ids of traces are small numbers or
// 63-bit hashes.
const answerBit = 1 << 63

// Recorded turns recorded requests into simulated ones.
func Recorded(from []trace.Request) []Request {
	out := make([]Request, len(from))
	for i := range from {
		r := &from[i]
		out[i] = Request{At: r.At, Output: max(r.Output, 1), Answer: r.Answer, Prompt: make([]Segment, len(r.IDs))}
		for k, id := range r.IDs {
			out[i].Prompt[k] = Segment{ID: id, Tokens: min(r.Block, r.Input-k*r.Block)}
		}
	}
	return out
}

// Found is the hit rate that a log's own workers had, over the requests that tell it; ok is
// false where none does.
func Found(from []trace.Request) (rate float64, ok bool) {
	prompt, hit := 0, 0
	for i := range from {
		if r := &from[i]; r.Cached >= 0 {
			prompt, hit = prompt+r.Input, hit+r.Cached
		}
	}
	return ratio(float64(hit), float64(prompt)), prompt > 0
}

// Blocks turns requests into recorded ones with an id for each page of the prompt.
func Blocks(from []Request, page int) []trace.Request {
	out := make([]trace.Request, len(from))
	for i := range from {
		r := &from[i]
		n := r.Input()
		out[i] = trace.Request{At: r.At, Input: n, Output: r.Output, Block: page, Cached: -1}
		for at := 0; at < n; at += page {
			out[i].IDs = append(out[i].IDs, hashRange(r.Prompt, at, min(page, n-at)))
		}
	}
	return out
}
