package policy

// Speed learns a rank's prefill rate in tokens per second from the counters of its load
// messages (SGLang's total_prefill_uncached over total_prefill_busy_us). Their plain ratio
// would be wrong: every prefill batch has a fixed cost, so a warm rank, which computes only the
// short ends of long prompts, would look slow. A choice needs the cost of one more token, so
// only spans with so many tokens count that the fixed cost is small.
//
// The zero value knows no rate. It is not safe for concurrent use.
type Speed struct {
	Chunk        int     // tokens of a full prefill batch; 0 is 8,192
	tokens, busy float64 // of the last counters that were taken
	rate         float64
}

const (
	// spanShare is the least number of tokens in a span, in chunks. Half of a chunk of 8,192
	// tokens takes 0.26 s at 16,000 tokens per second, of which some 10 ms are fixed.
	spanShare = 0.5
	// speedFall is the weight of a slower span. Faster ones count at once: overheads only slow
	// a span down. A rank that is throttled and busy is known after some 200 spans, about a
	// minute.
	speedFall = 0.005
)

// Observe takes the present counters: tokens computed and seconds spent on it, both since the
// rank's start. Counters that went back are of a new process, and the old rate is dropped.
func (s *Speed) Observe(tokens, busy float64) {
	if tokens < s.tokens || busy < s.busy {
		*s = Speed{Chunk: s.Chunk, tokens: tokens, busy: busy}
		return
	}
	n, took := tokens-s.tokens, busy-s.busy
	chunk := usualChunk
	if s.Chunk > 0 {
		chunk = s.Chunk
	}
	if n < spanShare*float64(chunk) || took <= 0 {
		return
	}
	s.tokens, s.busy = tokens, busy
	if rate := n / took; rate > s.rate {
		s.rate = rate
	} else {
		s.rate += speedFall * (rate - s.rate)
	}
}

// Restart forgets the rate and keeps the counters: the next span makes a new one.
func (s *Speed) Restart() { s.rate = 0 }

// Rate returns tokens per second; 0 is unknown.
func (s *Speed) Rate() float64 { return s.rate }
