package policy

// Speed learns how many prompt tokens a rank prefills a second from the counters of its load messages
// (total_prefill_uncached over total_prefill_busy_us of SGLang). The plain ratio of these would be wrong: every prefill
// batch has a fixed cost, so a rank that is warm, and computes only the short ends of long prompts, would look slow for
// being warm. What a choice needs is the cost of one more token, so only spans count in which so much was computed that
// the fixed cost is small.
//
// The zero value knows nothing. It is not safe for concurrent use.
type Speed struct {
	tokens, busy float64 // of the last counters that were taken
	rate         float64
}

const (
	// speedTokens is how much a span must compute to count: half of a batch of 8,192 tokens, SGLang's default on large GPUs. A
	// batch of it takes 0.26 s at 16,000 tokens a second, of which some 10 ms are fixed.
	speedTokens = 4096
	// speedFall is how fast an estimate follows slower spans. It follows faster ones at once: overheads only ever slow a span down.
	// A rank that is throttled and busy is known after some 200 spans, about a minute.
	speedFall = 0.005
)

// Observe takes the counters as they are now: tokens computed and seconds spent on it, both since the rank's start.
// Counters that went back are those of a new process, and what was learnt of the old one is dropped.
func (s *Speed) Observe(tokens, busy float64) {
	if tokens < s.tokens || busy < s.busy {
		*s = Speed{tokens: tokens, busy: busy}
		return
	}
	n, took := tokens-s.tokens, busy-s.busy
	if n < speedTokens || took <= 0 {
		return
	}
	s.tokens, s.busy = tokens, busy
	if rate := n / took; rate > s.rate {
		s.rate = rate
	} else {
		s.rate += speedFall * (rate - s.rate)
	}
}

// Restart forgets the estimate and keeps the counters: the next span makes a new one.
func (s *Speed) Restart() { s.rate = 0 }

// Rate returns tokens a second; 0 is unknown.
func (s *Speed) Rate() float64 { return s.rate }
