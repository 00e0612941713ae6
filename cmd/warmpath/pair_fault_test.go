package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/sim"
	"github.com/warmpath/warmpath/dataplane/router"
	"github.com/warmpath/warmpath/dataplane/router/config"
	"github.com/warmpath/warmpath/dataplane/testkit"
)

// One worker fails once: another pair answers, and the client sees nothing of it. Faults behind the first token of a stream
// are the exception: there the client is told, cleanly.
func TestPairFaultsAreRetried(t *testing.T) {
	all := asks(t, 200, 11)
	leaveNothing(t)
	for _, kind := range []string{"error-5xx", "reset", "stall", "error-event", "reset-late", "error-event-late", "stall-transfer"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel() // it waits most of its time
			cfg := pairWorker()
			if strings.HasPrefix(kind, "stall") { // which wait for one of the worker's time-outs, at a time scale of 100
				cfg.BootstrapTimeout, cfg.WaitingTimeout = 200*time.Second, 200*time.Second
			}
			// A cluster for each: two faults in a row do not make the router avoid a worker.
			c := runPairs(t, clusterSize{prefill: 2, decode: 2}, cfg, router.Config{})
			for role, w := range map[string]*sim.Worker{"prefill": c.prefill[0], "decode": c.decode[0]} {
				if role == "decode" && kind == "stall-transfer" {
					continue // only prefill workers send
				}
				for _, stream := range []bool{false, true} {
					late := stream && role == "decode" && strings.HasSuffix(kind, "-late")
					c.meetFault(t, w, kind, all, stream, late)
					c.settled(t)
					c.ready(t)
				}
			}
		})
	}
}

// meetFault makes w fail once and asks until somebody has met the fault. Nobody may be told of it, but where late says so.
func (c *pairCluster) meetFault(t *testing.T, w *sim.Worker, kind string, all []question, stream, late bool) {
	t.Helper()
	require.NoError(t, w.Faults().Apply(sim.Fault{Kind: kind}))
	end := time.Now().Add(pairPatience)
	for i := 0; time.Now().Before(end); i++ { // which worker a request goes to is the router's choice
		q := &all[i%len(all)]
		status, err := c.send(t.Context(), q, stream)
		var told toldError
		// Of a batch one answer may have begun when the leg of another one fails.
		if (late || stream && q.batch) && errors.As(err, &told) {
			assert.Equal(t, http.StatusOK, status, "the answer had begun: %v", err)
			err = nil
		}
		require.NoError(t, err, "status %d of %s", status, q.body)
		if w.Faults().Pending() == 0 {
			return
		}
	}
	require.Fail(t, "nobody met the fault")
}

// A worker is killed in the middle of everything while another one of its role is there: no request fails that has not been
// answered, and the worker is used again when it is back.
func TestPairsSurviveAKilledWorker(t *testing.T) {
	all := asks(t, 64, 19)
	for _, role := range []string{"prefill", "decode"} {
		t.Run(role, func(t *testing.T) {
			cfg := pairWorker()
			cfg.TimeScale = 2 // an answer takes long enough to be killed in the middle
			c := startPairs(t, clusterSize{prefill: 2, decode: 2}, cfg, router.Config{})
			victim := c.prefill[1]
			if role == "decode" {
				victim = c.decode[1]
			}
			var wg sync.WaitGroup
			var killed atomic.Bool
			for i := range all {
				wg.Go(func() {
					for again := true; again; again = !killed.Load() {
						_, err := c.send(t.Context(), &all[i], false)
						assert.NoError(t, err)
					}
				})
			}
			testkit.AwaitThat(t, func() bool { return victim.Work().Requests > 0 }, func() string { return "the victim gets nothing" })
			victim.Faults().Crash()
			killed.Store(true)
			wg.Wait()
			victim.Faults().Restart(0)
			c.settled(t)
			c.ready(t)
			before, _ := victim.Rooms()
			for i, end := 0, time.Now().Add(pairPatience); ; i++ {
				_, err := c.send(t.Context(), &all[i%len(all)], true)
				require.NoError(t, err)
				if now, _ := victim.Rooms(); len(now) > len(before) {
					break
				}
				require.True(t, time.Now().Before(end), "the worker is not used again")
			}
			c.settled(t)
		})
	}
}

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
	for _, size := range []clusterSize{{prefill: 2, decode: 2}, {prefill: 4, decode: 4}, {prefill: 2, decode: 2, workers: 1}} {
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
