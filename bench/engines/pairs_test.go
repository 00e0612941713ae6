//go:build engines

package engines_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// samePrompts is how many prompts a pair has to answer as an engine alone does, each streamed and not: of the first form with
	// all that there is to compare, and of each other form.
	samePrompts, otherPrompts = 100, 20
	// logprobTolerance is how far two log probabilities may be apart. Those of the tiny model, which computes in bfloat16, are
	// multiples of 2^-8 apart where its logits differ at all; measured: no difference, see README.md.
	logprobTolerance = 1e-3
	overlapRequests  = 160
)

// TestRealPairs runs prefill and decode engines whose KV pages move through NIXL, and then through Mooncake.
func TestRealPairs(t *testing.T) {
	installation(t)
	dir := t.TempDir()
	p := &proof{keeper: newKeeper(), dir: dir, binary: buildWarmpath(t, dir)}
	alone := &engine{}
	launch(t, p.keeper, dir, []*engine{alone})
	t.Run("nixl", func(t *testing.T) {
		four := p.startPairs(t, alone, "nixl", 2)
		p.engines = four[:2]
		t.Run("same answers", func(t *testing.T) { p.same(t, alone, samePrompts, otherPrompts) })
		p.engines = four
		t.Run("overlap", func(t *testing.T) { p.overlap(t, "pairs over nixl", overlapRequests) })
		t.Run("client gone", p.pairClientGone)
		t.Run("killed", p.pairKilled)
	})
	t.Run("mooncake", func(t *testing.T) {
		p.engines = p.startPairs(t, alone, "mooncake", 1)
		t.Run("same answers", func(t *testing.T) { p.same(t, alone, samePrompts, otherPrompts) })
		t.Run("overlap", func(t *testing.T) { p.overlap(t, "pairs over mooncake", overlapRequests) })
	})
	keep(t, "pairs.txt", p.notes.String())
	keep(t, "env-pairs.txt", environment(t))
}

// startPairs runs n prefill and n decode engines, which end with the test, and waits for them and for the engine alone.
func (p *proof) startPairs(t *testing.T, alone *engine, backend string, n int) []*engine {
	t.Helper()
	var engines []*engine
	for i := range 2 * n {
		engines = append(engines, &engine{index: i, backend: backend, mode: [...]string{"prefill", "decode"}[i%2]})
	}
	launch(t, p.keeper, p.dir, engines)
	waitAll(t, append([]*engine{alone}, engines...))
	return engines
}

// same asks the engines, which are a pair or one engine, through the router and another engine without it the same things.
// One at a time, so that neither computes two requests together and both compute the same numbers in the same order.
func (p *proof) same(t *testing.T, alone *engine, first, others int) {
	t.Helper()
	for _, e := range append([]*engine{alone}, p.engines...) {
		e.flush(t)
	}
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	worst, began := 0.0, time.Now()
	for i, f := range forms {
		prompts := first
		if i > 0 {
			prompts = others
		}
		rnd := rand.New(rand.NewPCG(21, uint64(i)))
		equal := 0
		for n := range prompts {
			body := f.make(rnd)
			whole, where := p.sameOnce(t, alone, r, f.path, body, nil, &worst)
			for _, stream := range []bool{false, true} {
				if stream {
					_, where = p.sameOnce(t, alone, r, f.path, streamed(body), whole, &worst)
				}
				if where == "" {
					equal++
				} else if equal+5 > 2*n { // the first few tell
					t.Errorf("%s, prompt %d, stream %v: %s", f.name, n, stream, where)
				}
			}
		}
		p.note(t, "%s: %s: %d of %d answers are those of an engine without a router", p.engines[0].name(), f.name, equal, 2*prompts)
		if equal != 2*prompts {
			t.Errorf("%s: %d of %d answers are not the same", f.name, 2*prompts-equal, 2*prompts)
		}
	}
	p.note(t, "%s: largest difference of two log probabilities %g, allowed %g; %.0f s", p.engines[0].name(), worst, logprobTolerance, time.Since(began).Seconds())
	r.waitIdle(t)
}

// sameOnce asks one thing and returns what an engine alone answered, and what was not the same. whole is the same answer in one
// piece, for a stream.
func (p *proof) sameOnce(t *testing.T, alone *engine, r *router, path string, body, whole document, worst *float64) (want document, where string) {
	t.Helper()
	var got document
	var errs [2]error
	var both sync.WaitGroup
	both.Go(func() { want, _, errs[0] = ask(t.Context(), alone.url+path, body) })
	both.Go(func() {
		var h map[string][]string
		var err error
		if got, h, err = ask(t.Context(), r.url+path, body); err == nil {
			by := append(h["X-Warmpath-Prefill"], h["X-Warmpath-Worker"]...)
			if !slices.EqualFunc(by, p.engines, func(url string, e *engine) bool { return url == e.url }) {
				err = fmt.Errorf("answered by %q", by)
			}
		}
		errs[1] = err
	})
	both.Wait()
	for i, who := range []string{"without the router", "through it"} {
		if errs[i] != nil {
			return want, who + ": " + errs[i].Error()
		}
	}
	if where = dropTold(whole, want, got); where == "" {
		where = differs("", want, got, worst)
	}
	return want, where
}

// overlap checks what the router expects of the caches, of pairs those of the prefill engines, on conversations through all APIs.
func (p *proof) overlap(t *testing.T, on string, requests int) {
	t.Helper()
	for _, e := range p.engines {
		e.flush(t)
	}
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	client := startOpenAI(t, p.keeper, p.dir, r.url)
	m := measure("one at a time, "+on, "kv", func() []outcome { return sequential(t.Context(), r.url, client, 31, requests) })
	p.add(t, m)
	p.notes.WriteString(table([]measured{m}, p.engines))
	r.waitIdle(t)
}
