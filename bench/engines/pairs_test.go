//go:build engines

package engines_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
		t.Run("same answers", func(t *testing.T) { p.same(t, alone) })
		p.engines = four
		t.Run("overlap", p.pairOverlap)
		t.Run("client gone", p.pairClientGone)
		t.Run("killed", p.pairKilled)
	})
	t.Run("mooncake", func(t *testing.T) {
		p.engines = p.startPairs(t, alone, "mooncake", 1)
		t.Run("same answers", func(t *testing.T) { p.same(t, alone) })
		t.Run("overlap", p.pairOverlap)
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

// same asks a pair and an engine alone the same things. One at a time, so that neither computes two requests together and
// both compute the same numbers in the same order.
func (p *proof) same(t *testing.T, alone *engine) {
	t.Helper()
	for _, e := range append([]*engine{alone}, p.engines...) {
		e.flush(t)
	}
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	worst, began := 0.0, time.Now()
	for i, f := range forms {
		prompts := samePrompts
		if i > 0 {
			prompts = otherPrompts
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
		p.note(t, "%s: %s: %d of %d answers of the pair are those of an engine alone", p.engines[0].backend, f.name, equal, 2*prompts)
		if equal != 2*prompts {
			t.Errorf("%s: %d of %d answers are not the same", f.name, 2*prompts-equal, 2*prompts)
		}
	}
	p.note(t, "%s: largest difference of two log probabilities %g, allowed %g; %.0f s", p.engines[0].backend, worst, logprobTolerance, time.Since(began).Seconds())
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
			header := strings.Join(append(h["X-Warmpath-Prefill"], h["X-Warmpath-Worker"]...), " ")
			if header != p.engines[0].url+" "+p.engines[1].url {
				err = fmt.Errorf("answered by %q", header)
			}
		}
		errs[1] = err
	})
	both.Wait()
	for i, who := range []string{"alone", "pair"} {
		if errs[i] != nil {
			return want, who + ": " + errs[i].Error()
		}
	}
	if where = dropTold(whole, want, got); where == "" {
		where = differs("", want, got, worst)
	}
	return want, where
}

// pairOverlap checks what the router expects of prefill engines' caches, on conversations through all APIs.
func (p *proof) pairOverlap(t *testing.T) {
	for _, e := range p.engines {
		e.flush(t)
	}
	r := startRouter(t, p.keeper, p.dir, p.binary, "kv", p.engines)
	defer r.proc.stop(5 * time.Second)
	client := startOpenAI(t, p.keeper, p.dir, r.url)
	m := measure("one at a time, pairs over "+p.engines[0].backend, "kv", func() []outcome {
		return sequential(t.Context(), r.url, client, 31, overlapRequests)
	})
	p.add(t, m)
	p.notes.WriteString(table([]measured{m}, p.engines))
	r.waitIdle(t)
}
