//go:build engines

package engines_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

const (
	// pressed is how many requests come at once to a decode engine that runs two, and pressedTokens how long each answer is.
	pressed, pressedTokens = 18, 300
	// idleRequests come one at a time, about as far apart as an engine keeps an idle connection: 1 s.
	idleRequests = 40
)

// TestRealPairsUnderPressure: a pair whose decode engine is full for many times --pair-timeout, and engines that close idle
// connections as the next request comes, answer all and are blamed for nothing.
func TestRealPairsUnderPressure(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	env := []string{"SGLANG_TIMEOUT_KEEP_ALIVE=1", "WAIT=300"}
	pair := []*engine{
		{index: 0, backend: "nixl", mode: "prefill", env: env},
		{index: 1, backend: "nixl", mode: "decode", env: env, flags: []string{"--max-running-requests", "2"}},
	}
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir), engines: pair}
	launch(t, p.keeper, dir, pair)
	waitAll(t, pair)
	t.Run("decode is full", p.decodeFull)
	t.Run("idle connections", p.idleConnections)
	keep(t, "pairs-pressure.txt", p.notes.String())
}

// decodeFull sends more requests than the decode engine runs.
func (p *proof) decodeFull(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines, "--pair-timeout", "2s")
	defer r.proc.stop(5 * time.Second)
	var all sync.WaitGroup
	outcomes := make([]outcome, pressed)
	began := time.Now()
	for i := range outcomes {
		prompt := randomIDs(rand.New(rand.NewPCG(9, uint64(i))), 60)
		all.Go(func() { outcomes[i] = generate(t.Context(), r.url, prompt, pressedTokens, i%2 == 0) })
	}
	all.Wait()
	longest := p.blameless(t, r, outcomes)
	p.note(t, "%d requests at a decode engine that runs two, --pair-timeout 2s: all in %.0f s, the slowest after %.0f s",
		pressed, time.Since(began).Seconds(), longest.Seconds())
}

// idleConnections sends requests as far apart as the engines keep an idle connection.
func (p *proof) idleConnections(t *testing.T) {
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	rnd := rand.New(rand.NewPCG(10, 0))
	outcomes := make([]outcome, idleRequests)
	for i := range outcomes {
		outcomes[i] = generate(t.Context(), r.url, randomIDs(rnd, 40), 4, i%2 == 0)
		<-time.After(990*time.Millisecond + time.Duration(rnd.IntN(20))*time.Millisecond)
	}
	p.blameless(t, r, outcomes)
	p.note(t, "%d requests about 1 s apart to engines that close idle connections after 1 s: none failed", idleRequests)
}

// blameless checks that all were answered, that no breaker has opened and that no load is left. It returns the longest answer.
func (p *proof) blameless(t *testing.T, r *router, outcomes []outcome) (longest time.Duration) {
	t.Helper()
	for i, o := range outcomes {
		if o.err != nil {
			t.Errorf("request %d (%s) after %v: %v", i, o.api, o.took, o.err)
		}
		longest = max(longest, o.took)
	}
	r.waitIdle(t)
	for _, w := range r.status(t).Workers {
		if w.Breaker.Opened > 0 {
			t.Errorf("the breaker of %s has opened", w.URL)
		}
	}
	return longest
}
