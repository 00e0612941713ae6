//go:build engines

package engines_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	sequentialRequests = 520 // each begins after the answer before it has ended
	concurrentRequests = 320
	inFlight           = 8 // of the concurrent part; one engine runs as many at most
)

// sequential replays requests of interleaved conversations one after the other, through all APIs, streamed and not. The
// next conversation is drawn at random: in a fixed order round robin would send each conversation to one engine by luck.
func sequential(ctx context.Context, base string, client *openaiClient, seed uint64, requests int) []outcome {
	rnd := rand.New(rand.NewPCG(seed, 0))
	opened := 0
	open := make([]*conversation, openConversations)
	var outcomes []outcome
	for len(outcomes) < requests {
		i := rnd.IntN(len(open))
		if open[i] == nil || open[i].ended() {
			open[i] = newConversation(seed, opened, kindOf(opened))
			opened++
		}
		began := time.Now()
		o := open[i].next(ctx, base, client, len(outcomes)%2 == 0)
		o.at, o.took = began, time.Since(began)
		outcomes = append(outcomes, o)
	}
	return outcomes
}

// concurrent replays streamed /generate requests with several in flight. Each client has conversations of its own, so
// that every turn still follows its answer.
func concurrent(ctx context.Context, base string, seed uint64, requests int) []outcome {
	var mu sync.Mutex
	var outcomes []outcome
	var clients sync.WaitGroup
	for n := range inFlight {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			open := make([]*conversation, 2)
			opened := 0
			for range requests / inFlight {
				i := rnd.IntN(len(open))
				if open[i] == nil || open[i].ended() {
					open[i] = newConversation(seed, opened*inFlight+n, kindGenerate)
					opened++
				}
				o := open[i].next(ctx, base, nil, true)
				mu.Lock()
				outcomes = append(outcomes, o)
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return outcomes
}

// measured is one row of the printed table.
type measured struct {
	phase, policy string
	outcomes      []outcome
	wall          time.Duration
	stalls        *stalls // of the machine meanwhile; nil: nobody looked
}

func measure(phase, policy string, replay func() []outcome) measured {
	s, began := watchStalls(), time.Now()
	outcomes := replay()
	wall := time.Since(began)
	s.stop()
	return measured{phase, policy, outcomes, wall, s}
}

// errors counts the requests that failed.
func (m *measured) errors() int {
	n := 0
	for i := range m.outcomes {
		if m.outcomes[i].err != nil {
			n++
		}
	}
	return n
}

// tokens sums prompt and cached tokens over the requests that were answered.
func (m *measured) tokens() (prompt, cached int) {
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.err == nil {
			prompt += o.prompt
			cached += o.cached
		}
	}
	return prompt, cached
}

func (m *measured) hitRate() float64 {
	prompt, cached := m.tokens()
	return float64(cached) / float64(max(1, prompt))
}

// overlap compares expectation and report over the answered requests of which the router expected something.
type overlap struct {
	equal, over, under int // over: the router expected more than there was
	stalled            int // of over and under: while the machine stood still, so that they say nothing
}

func (v overlap) compared() int { return v.equal + v.over + v.under }

// share is 1 where the router knew every cache exactly, as far as the machine let it.
func (v overlap) share() float64 { return float64(v.equal) / float64(max(1, v.compared()-v.stalled)) }

func (m *measured) overlap() overlap {
	var v overlap
	for i := range m.outcomes {
		o := &m.outcomes[i]
		expected, known := o.expected()
		if o.err == nil && known && expected != o.cached && m.stalls.hit(o) {
			v.stalled++
		}
		switch {
		case o.err != nil || !known:
		case expected == o.cached:
			v.equal++
		case expected > o.cached:
			v.over++
		default:
			v.under++
		}
	}
	return v
}
