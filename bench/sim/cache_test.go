package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/zmq/kvevent"
)

// twin applies the same operations to a cache and its naive counterpart, and the cache's events
// as a router would.
type twin struct {
	t     testing.TB
	fast  *cache
	naive *naiveCache
	heard map[uint64]int // hash -> copies, from the events alone
	held  []held
}

// held is a locked path.
type held struct {
	node *node
	path []string
}

const twinPage = 2

func newTwin(t testing.TB) *twin {
	t.Helper()
	return &twin{
		t:     t,
		fast:  newCache(twinPage, &recorder{page: twinPage}),
		naive: newNaiveCache(twinPage),
		heard: make(map[uint64]int),
	}
}

func twinSpace(n int) domain {
	return []domain{{}, {salt: "a"}, {extraKey: "k"}, {lora: "l", salt: "a"}}[n%4]
}

// step does operation op on both and compares them.
func (w *twin) step(op int, s domain, tokens []uint32) {
	switch op {
	case 0, 1:
		_, added := w.fast.insert(s, tokens)
		if _, n := w.naive.insert(s, tokens); n != added {
			w.t.Fatalf("insert(%v, %v) added %d pages, want %d", s, tokens, added, n)
		}
	case 2:
		w.hold(s, tokens)
	case 3:
		if len(w.held) > 0 {
			w.fast.unlock(w.held[0].node)
			w.naive.lock(w.held[0].path, -1)
			w.held = w.held[1:]
		}
	case 4:
		want := len(tokens)
		if got, n := w.fast.evict(want), w.naive.evict(want); got != n {
			w.t.Fatalf("evict(%d) freed %d pages, want %d", want, got, n)
		}
	case 5:
		before := w.fast.peek(s, tokens)
		if _, n := w.fast.match(s, tokens); n*twinPage != before {
			w.t.Fatalf("match(%v, %v) = %d pages after peek said %d tokens", s, tokens, n, before)
		}
		w.naive.match(s, tokens)
	}
	w.compare()
}

// hold matches a prefix and locks it.
func (w *twin) hold(s domain, tokens []uint32) {
	at, n := w.fast.match(s, tokens)
	path := w.naive.match(s, tokens)
	if n != len(path) {
		w.t.Fatalf("match(%v, %v) = %d pages, want %d", s, tokens, n, len(path))
	}
	w.fast.lock(at)
	w.naive.lock(path, 1)
	w.held = append(w.held, held{at, path})
}

// compare checks that both have the same pages, and that the events agree.
func (w *twin) compare() {
	w.hear()
	want := w.naive.hashes()
	if w.fast.pages != len(want) || w.fast.locked != w.naive.locked() {
		w.t.Fatalf("pages, locked = %d, %d, want %d, %d", w.fast.pages, w.fast.locked, len(want), w.naive.locked())
	}
	var heard []uint64
	for h, n := range w.heard {
		for range n {
			heard = append(heard, h)
		}
	}
	slices.Sort(heard)
	if !slices.Equal(heard, want) {
		w.t.Fatalf("events tell of %d blocks, want %d: %v, %v", len(heard), len(want), heard, want)
	}
}

// hear applies the recorded events.
func (w *twin) hear() {
	for _, e := range w.fast.changes.take() {
		for _, h := range e.Hashes {
			switch e.Kind {
			case kvevent.Stored:
				w.heard[h]++
			case kvevent.Removed:
				if w.heard[h]--; w.heard[h] < 0 {
					w.t.Fatalf("removal of unknown block %d", h)
				}
			}
		}
		if e.Kind == kvevent.Stored && e.HasParent && w.heard[e.Parent] == 0 {
			w.t.Fatalf("store below unknown parent %d", e.Parent)
		}
		if e.Kind == kvevent.Stored && len(e.Tokens) != len(e.Hashes)*twinPage {
			w.t.Fatalf("%d tokens for %d hashes", len(e.Tokens), len(e.Hashes))
		}
	}
}

func TestCacheAgainstNaive(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		w := newTwin(t)
		for range 150 {
			tokens := make([]uint32, rng.IntN(14))
			for i := range tokens {
				tokens[i] = uint32(rng.IntN(2)) // few tokens: prefixes meet
			}
			w.step(rng.IntN(6), twinSpace(rng.IntN(4)), tokens)
		}
	}
}

func TestCacheFreesEverythingUnlocked(t *testing.T) {
	c := newCache(4, &recorder{page: 4})
	for i := range uint32(50) {
		c.insert(domain{salt: string(rune('a' + i%3))}, sequence(i%7*10, 40))
	}
	if freed := c.evict(1 << 30); freed != c.inserted || c.pages != 0 || len(c.roots) != 0 || len(c.leaves) != 0 {
		t.Errorf("evict freed %d of %d; left %d pages, %d roots, %d leaves", freed, c.inserted, c.pages, len(c.roots), len(c.leaves))
	}
}

func TestEvictionTakesLeastRecentlyUsedLeaf(t *testing.T) {
	c := newCache(4, &recorder{page: 4})
	old, recent := sequence(0, 8), sequence(100, 8)
	c.insert(domain{}, old)
	c.insert(domain{}, recent)
	c.match(domain{}, old) // now the more recent one
	c.evict(1)
	if got := c.peek(domain{}, old); got != 8 {
		t.Errorf("recently used prefix: %d tokens left, want 8", got)
	}
	if got := c.peek(domain{}, recent); got != 0 {
		t.Errorf("least recently used prefix: %d tokens left, want 0", got)
	}
}

func TestLinkedStoresAreOneEvent(t *testing.T) {
	r := &recorder{page: 4}
	c := newCache(4, r)
	c.insert(domain{}, sequence(0, 8))
	c.insert(domain{}, sequence(0, 20)) // continues the first
	c.insert(domain{}, sequence(50, 4)) // does not
	if got := r.take(); len(got) != 2 || len(got[0].Hashes) != 5 || got[0].HasParent || len(got[1].Hashes) != 1 {
		t.Errorf("events %+v, want one of 5 blocks and one of 1", got)
	}
}
