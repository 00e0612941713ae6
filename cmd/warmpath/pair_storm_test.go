package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
)

// storm is what random faults do while many clients ask.
type storm struct {
	c       *pairCluster
	rng     *rand.Rand
	every   int // requests between two faults
	kills   int // requests between two restarts
	applied map[string]int
	excused int // requests that may fail by what was applied
	draw    func(*rand.Rand) sim.Fault
	spared  []*sim.Worker // never go away: without any worker, requests would fail as fast as the machine can make them
}

// pairFaults draws one fault of a half of a pair.
func pairFaults(rng *rand.Rand) sim.Fault {
	count := 1 + rng.IntN(3)
	faults := []sim.Fault{
		{Kind: "error-5xx", Count: count},
		{Kind: "reset", Count: count},
		{Kind: "stall"},
		{Kind: "error-event", Count: count},
		{Kind: "reset-late", Count: count},
		{Kind: "error-event-late", Count: count},
		{Kind: "stall-transfer"},
		{Kind: "slow-transfer", Factor: 20, Seconds: 0.1},
		{Kind: "slow", Factor: 5, Seconds: 0.1},
		{Kind: "hang", Seconds: 0.1},
		{Kind: "bootstrap-503", Seconds: 0.1},
		{Kind: "bootstrap-down", Seconds: 0.1},
		{Kind: "drop-events", Count: count},
	}
	return faults[rng.IntN(len(faults))]
}

// before is called with the number of each request before it is made, in order.
func (s *storm) before(t *testing.T, i int) {
	t.Helper()
	if i%s.kills == s.kills-1 {
		s.apply(t, sim.Fault{Kind: "restart", Seconds: 0.1 + 0.2*s.rng.Float64()})
	}
	if i%s.every == s.every-1 {
		s.apply(t, s.draw(s.rng))
	}
}

// apply does f to a random worker.
func (s *storm) apply(t *testing.T, f sim.Fault) {
	t.Helper()
	w := s.c.sims[s.rng.IntN(len(s.c.sims))]
	if slices.Contains(s.spared, w) {
		switch f.Kind {
		case "restart", "hang", "bootstrap-503", "bootstrap-down":
			return
		}
	}
	if f.Kind == "stall" && w.Mode() == "" {
		return // nothing but the router's patience would end it, which is longer than a test should last
	}
	if err := w.Faults().Apply(f); err != nil {
		t.Error(err)
	}
	s.applied[f.Kind]++
	switch f.Kind {
	case "restart", "bootstrap-503", "bootstrap-down": // whatever the worker has in hand
		s.excused += stormClients
	default:
		s.excused += max(1, f.Count)
	}
}

// tally is what clients met.
type tally struct {
	fine, left, told, broken atomic.Int64

	mu      sync.Mutex
	reasons map[string]int
}

// why counts what clients were told, without numbers and names that differ.
func (s *tally) why(status int, told toldError) {
	text := string(told)
	if i := strings.Index(text, "request rank="); i >= 0 {
		text = text[:i]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons == nil {
		s.reasons = map[string]int{}
	}
	s.reasons[fmt.Sprintf("%d %.150s", status, text)]++
}

// stormClients is how many clients a storm has.
const stormClients = 24

// clients makes n requests and returns when the last has ended. One in 25 leaves before its answer.
func (s *storm) clients(t *testing.T, all []question, n int) *tally {
	t.Helper()
	sum := &tally{}
	var mu sync.Mutex // of the storm and of what follows
	made, plans := 0, rand.New(rand.NewPCG(5, 6))
	var wg sync.WaitGroup
	for range stormClients {
		wg.Go(func() {
			for {
				mu.Lock()
				i := made
				if made++; i >= n {
					mu.Unlock()
					return
				}
				s.before(t, i)
				q, stream, leave := &all[i%len(all)], plans.IntN(2) == 0, plans.IntN(25) == 0
				mu.Unlock()
				s.one(t, q, stream, leave, sum)
			}
		})
	}
	wg.Wait()
	t.Logf("%d answered, %d left, %d told of an error, %d broken off; faults %v, which excuse %d; told %v",
		sum.fine.Load(), sum.left.Load(), sum.told.Load(), sum.broken.Load(), s.applied, s.excused, sum.reasons)
	assert.LessOrEqual(t, sum.told.Load()+sum.broken.Load(), int64(s.excused), "requests that failed, and those that faults explain")
	return sum
}

// one makes one request.
func (s *storm) one(t *testing.T, q *question, stream, leave bool, sum *tally) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pairPatience)
	defer cancel()
	if leave {
		go func() { // as soon as somebody works on it, or at once: whichever the scheduler likes
			awaitInFlight(ctx, s.c)
			cancel()
		}()
	}
	status, err := s.c.send(ctx, q, stream)
	var told toldError
	switch {
	case err == nil:
		sum.fine.Add(1)
	case errors.Is(err, errWrong), errors.Is(err, context.DeadlineExceeded):
		t.Error(err)
	case leave:
		sum.left.Add(1)
	case errors.As(err, &told):
		sum.told.Add(1)
		sum.why(status, told)
	default:
		sum.broken.Add(1) // the worker's connection ended in the middle of its answer
	}
}

// awaitInFlight returns when the router has something in hand, or ctx ends.
func awaitInFlight(ctx context.Context, c *pairCluster) {
	for ctx.Err() == nil && c.router.Status().InFlight == 0 {
		time.Sleep(time.Millisecond)
	}
}

// Every request ends, none is answered with another's answer or twice, and nothing is left anywhere: no load on any rank of the router, no
// leg, page or promise at any worker, no goroutine, no room that was used again.
func TestPairsInAStormOfFaults(t *testing.T) {
	all, after := asks(t, 200, 13), asks(t, 20, 14)
	leaveNothing(t)
	for _, size := range []clusterSize{{prefill: 4, decode: 4}, {prefill: 2, decode: 2, workers: 1}} {
		t.Run(fmt.Sprintf("%d+%d+%d", size.prefill, size.decode, size.workers), func(t *testing.T) {
			t.Parallel() // it waits most of its time
			cfg := pairWorker()
			cfg.DPSize = 1 + size.prefill/4
			c := runPairs(t, size, cfg, router.Config{Timeouts: config.Timeouts{FirstByte: pairPatience / 4, Stall: pairPatience / 4}})
			s := &storm{c: c, rng: rand.New(rand.NewPCG(uint64(size.prefill), 17)), every: 10, kills: 60, applied: map[string]int{}, draw: pairFaults, spared: []*sim.Worker{c.prefill[0], c.decode[0]}}
			s.clients(t, all, stormRequests)
			c.settled(t)
			c.ready(t)
			for i := range after { // and it serves on; of the others, some may have seen two engines die
				_, err := c.send(t.Context(), &after[i], i%2 == 0)
				assert.NoError(t, err)
			}
			c.settled(t)
		})
	}
}
