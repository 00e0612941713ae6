package policy

import "math"

// scorer is a policy that gives each candidate a number and takes the lowest.
type scorer interface {
	// scores appends a number for each candidate to dst.
	scores(dst []float64, req *Request, candidates []Candidate) []float64
}

var (
	_ scorer = KV{}
	_ scorer = Dynamo{}
	_ scorer = Staleness{}
	_ scorer = LMetric{}
)

// stackScores is the number of scores with room on the stack. Larger fleets cost an allocation:
// clearing room for 1,024 takes as long as scoring 30 candidates.
const stackScores = 64

// grow returns room for n scores.
func grow(room []float64, n int) []float64 {
	if n > cap(room) {
		return make([]float64, 0, n)
	}
	return room
}

// fleet is the facts of all candidates together that a score needs.
type fleet struct {
	rate  float64 // mean of the known prefill rates
	token float64 // 1 / rate: seconds a token
	later float64 // mean number of requests that a computation delays
	crowd float64 // value of a last place in a batch: the share of ranks with more

	idle   float64 // share of ranks on which no request waits
	chunk  float64 // tokens of a full prefill batch
	answer float64 // seconds that an answer takes

	slowed bool // some candidates have lost a part of their speed
}

const (
	// usualChunk is a full prefill batch where it is unknown: SGLang's default on large GPUs.
	usualChunk = 8192
	// usualAnswer is the chunks in whose time an answer is made, where one of the two is unknown:
	// 350 tokens at 30 ms, the means of the conversation trace, and 0.5 s a chunk.
	usualAnswer = 20
)

// unknownRate is the prefill rate where nothing is known: a mid-sized model on one GPU. It scales
// all costs alike.
const unknownRate = 10_000

func survey(req *Request, candidates []Candidate) fleet {
	sum, known, busy, roomy, fewest := 0.0, 0, 0, 0, int64(laterMost)
	making, slowed := false, false
	for i := range candidates {
		c := &candidates[i]
		if c.Waiting > 0 {
			busy++
		}
		fewest = min(fewest, c.Waiting)
		if !c.crowded() {
			roomy++
		}
		if c.Predicted > c.Cached && c.InFlight < c.MaxRunning {
			making = true
		}
		rate := c.Rate
		if c.slowed() {
			rate, slowed = max(c.FullRate, rate), true
		}
		if rate > 0 {
			sum += rate
			known++
		}
	}
	n := float64(len(candidates))
	f := fleet{rate: unknownRate, crowd: float64(roomy) / n, idle: 1 - float64(busy)/n, slowed: slowed}
	if making { // later requests will have a rank with the prompt, and need not wait for it now
		f.crowd = 0
	}
	f.later = laterBase*float64(busy)/n + float64(max(fewest, 0))
	f.chunk, f.answer = usualChunk, req.Answer
	if req.Chunk > 0 {
		f.chunk = float64(req.Chunk)
	}
	switch {
	case known > 0:
		f.rate = sum / float64(known)
	case f.answer > 0:
		f.rate = usualAnswer * f.chunk / f.answer
	}
	f.token = 1 / f.rate
	if f.answer <= 0 {
		f.answer = usualAnswer * f.chunk * f.token
	}
	return f
}

// lowest takes one of the lowest scores at random, the same one for the same seed.
func lowest(scores []float64, seed uint64, why string) Choice {
	best := math.Inf(1)
	for _, s := range scores {
		best = min(best, s)
	}
	choice, ties := Choice{Cost: best, Reason: why}, uint64(0)
	for i, s := range scores {
		if s > best {
			continue
		}
		ties++
		// Reservoir sampling: each of n ties is picked with probability 1/n.
		if ties == 1 || mix(seed+ties)%ties == 0 {
			choice.Index, choice.Cost = i, s
		}
	}
	return choice
}

// sample draws from the softmax of -score / (range x temperature), Dynamo's form: the range
// makes the temperature independent of the prompt's length.
func sample(scores []float64, seed uint64, temperature float64) Choice {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range scores {
		low, high = min(low, s), max(high, s)
	}
	scale := (high - low) * temperature
	if scale == 0 {
		scale = 1 // all are equal
	}
	sum := 0.0
	for _, s := range scores {
		sum += math.Exp((low - s) / scale)
	}
	at, last := unit(seed)*sum, Choice{Reason: "sampled by temperature"}
	for i, s := range scores {
		last.Index, last.Cost = i, s
		if at -= math.Exp((low - s) / scale); at < 0 {
			break
		}
	}
	return last
}

// Scores appends each candidate's score to dst, lower is better, for the policies that choose
// by one: seconds for kv, KV blocks for dynamo, the negated score for staleness, tokens times
// requests for lmetric. Other policies have none.
func Scores(dst []float64, p Policy, req Request, candidates []Candidate) []float64 {
	switch p := Unwrap(p).(type) { // not by the interface, through which req would escape
	case KV:
		return p.scores(dst, &req, candidates)
	case Dynamo:
		return p.scores(dst, &req, candidates)
	case Staleness:
		return p.scores(dst, &req, candidates)
	case LMetric:
		return p.scores(dst, &req, candidates)
	}
	return dst
}
