package lint

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

const (
	// waitingBodies bounds the sampled bodies that wait to be parsed.
	waitingBodies = 32
	// maxBody is the longest body that is sampled: 64 prompts of 8,000 tokens a second would else
	// be 2 MB a second of copies.
	maxBody = 512 << 10
	// maxPrompts and keptBytes bound the prompts compared, the latest ones. Among 512, a template
	// of one prompt in a hundred shows.
	maxPrompts, maxPromptBytes = 512, 16 << 20
	// checkEvery is the interval of comparisons; one takes 0.1 s for 512 prompts of 4,000 tokens.
	checkEvery = 30 * time.Second
)

// Sampler checks a share of live traffic.
type Sampler struct {
	share   float64
	bodies  chan []byte
	report  atomic.Pointer[Report]
	sampled atomic.Uint64
	dropped atomic.Uint64

	// Of Run's goroutine.
	prompts []*Prompt
	sizes   []int
	bytes   int
	fresh   bool
}

// NewSampler returns a sampler of a share of all bodies, from 0 to 1.
func NewSampler(share float64) *Sampler {
	return &Sampler{share: share, bodies: make(chan []byte, waitingBodies)}
}

// Offer shows a request's body. Most bodies are skipped; a sampled one is copied. It never blocks.
func (s *Sampler) Offer(body []byte) {
	if rand.Float64() >= s.share || len(body) > maxBody {
		return
	}
	select {
	case s.bodies <- append([]byte(nil), body...):
		s.sampled.Add(1)
	default:
		s.dropped.Add(1)
	}
}

// Report returns the findings of the latest samples; nil before there are enough to compare.
func (s *Sampler) Report() *Report { return s.report.Load() }

// Counts returns the number of bodies sampled, and the number dropped while others waited to be
// parsed.
func (s *Sampler) Counts() (sampled, dropped uint64) { return s.sampled.Load(), s.dropped.Load() }

// Run parses and compares samples until ctx ends.
func (s *Sampler) Run(ctx context.Context) error {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case body := <-s.bodies:
			s.keep(body)
		case <-tick.C:
			if s.fresh {
				s.report.Store(Check(s.prompts))
				s.fresh = false
			}
		}
	}
}

func (s *Sampler) keep(body []byte) {
	p, err := Parse(body)
	if err != nil {
		return // embeddings and the like have none that is cached
	}
	s.prompts, s.sizes, s.fresh = append(s.prompts, p), append(s.sizes, len(body)), true
	s.bytes += len(body)
	for len(s.prompts) > maxPrompts || s.bytes > maxPromptBytes {
		s.bytes -= s.sizes[0]
		s.prompts[0] = nil
		s.prompts, s.sizes = s.prompts[1:], s.sizes[1:]
	}
}
