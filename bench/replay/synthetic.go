package replay

import (
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// The synthetic workload: a chat service in the sizes of Mooncake's conversation trace (mean
// input 12,000 tokens, mean output 350, three requests a second).
const (
	systemPrompts  = 50  // as in the published benchmarks of shared prompts
	systemExponent = 1   // prompt i is drawn with weight 1 / (i + 1)
	systemBlocks   = 4   // 2,048 tokens each
	openSessions   = 64  // conversations that may continue at any moment
	continueChance = 0.7 // that a request is a conversation's next turn and not a new one
	meanOutput     = 350
	meanTurn       = 1500 // tokens that a turn adds: question, documents and the answer before it
	requestsASec   = 3
	maxInput       = 64 << 10
)

// Synthetic is a trace without a file: conversations of several turns over system prompts that
// are shared with Zipf's weights. The same seed gives the same trace on every machine.
type Synthetic struct {
	rnd    *rand.Rand
	left   int
	at     time.Duration
	nextID uint64
	open   []session
}

type session struct {
	input  int
	blocks []uint64
}

var _ Source = (*Synthetic)(nil)

// NewSynthetic makes a trace of n requests.
func NewSynthetic(seed uint64, n int) *Synthetic {
	return &Synthetic{rnd: rand.New(rand.NewPCG(seed, 0)), left: n, nextID: systemPrompts * systemBlocks}
}

// Next returns the next request, with memory of its own.
func (s *Synthetic) Next() (trace.Request, error) {
	if s.left == 0 {
		return trace.Request{}, io.EOF
	}
	s.left--
	s.at += time.Duration(s.rnd.ExpFloat64() / requestsASec * float64(time.Second))
	c := s.session()
	s.grow(c)
	return trace.Request{
		At: s.at, Input: c.input, Output: 1 + int(s.rnd.ExpFloat64()*meanOutput),
		Block: trace.BlockTokens, IDs: append([]uint64(nil), c.blocks...), Cached: -1,
	}, nil
}

// session continues a conversation or opens one, in the place of another when enough are open.
func (s *Synthetic) session() *session {
	if len(s.open) > 0 && s.rnd.Float64() < continueChance {
		if c := &s.open[s.rnd.IntN(len(s.open))]; c.input < maxInput {
			return c
		}
	}
	fresh := session{input: systemBlocks * trace.BlockTokens}
	system := uint64(s.zipf())
	for i := range uint64(systemBlocks) {
		fresh.blocks = append(fresh.blocks, system*systemBlocks+i)
	}
	if len(s.open) < openSessions {
		s.open = append(s.open, fresh)
		return &s.open[len(s.open)-1]
	}
	c := &s.open[s.rnd.IntN(len(s.open))]
	*c = fresh
	return c
}

// grow adds a turn. Blocks that were full stay as they are, so the turn before is a prefix of
// this one.
func (s *Synthetic) grow(c *session) {
	c.input += 1 + int(s.rnd.ExpFloat64()*meanTurn)
	for len(c.blocks)*trace.BlockTokens < c.input {
		c.blocks = append(c.blocks, s.nextID)
		s.nextID++
	}
}

// zipf draws a system prompt.
func (s *Synthetic) zipf() int {
	total := 0.0
	for i := range systemPrompts {
		total += math.Pow(float64(i+1), -systemExponent)
	}
	at := s.rnd.Float64() * total
	for i := range systemPrompts {
		if at -= math.Pow(float64(i+1), -systemExponent); at < 0 {
			return i
		}
	}
	return systemPrompts - 1
}
