package radix

import (
	"errors"
	"testing"
)

// evictingHistory is a history with evictions: the index then knows less than the oracle, and
// must never credit more.
type evictingHistory struct {
	*history
	evicted int // rounds with a victim
}

// newEvictingHistory returns a history without aliases: the oracle does not know the evicted
// block of an alias.
func newEvictingHistory(tb testing.TB, in []byte) *evictingHistory {
	tb.Helper()
	return &evictingHistory{history: newHistory(tb, in)}
}

func (h *evictingHistory) run() {
	ops := 0
	for len(h.in) > 0 {
		switch op := h.next(20); {
		case op < 8:
			h.store()
		case op < 13:
			h.remove()
		case op == 13:
			h.addWorker()
		case op == 14:
			h.clear()
		case op == 15:
			h.removeWorker()
		case op < 19:
			h.evict()
		default:
			h.storeFull()
		}
		if ops++; ops%4 == 0 { // the oracle is slow
			h.compare()
		}
	}
	h.compare()
	for _, held := range h.oracle.workers {
		for _, e := range held {
			for _, p := range e.blocks {
				h.compareAtMost(parsePath(p.path))
			}
		}
	}
}

// key is the engine hash of a domain.
func (h *evictingHistory) key(d Domain) uint64 { return h.engine()*historyDomains + uint64(d) }

func (h *evictingHistory) domain() Domain { return Domain(h.next(historyDomains)) }

func (h *evictingHistory) evict() {
	h.x.evictor.mu.Lock()
	defer h.x.evictor.mu.Unlock()
	if h.x.evictor.evictLocked(int64(1 + 64*h.next(64))) {
		h.evicted++
	}
}

// storeFull stores into a full index, which evicts all it can.
func (h *evictingHistory) storeFull() {
	soft := h.x.tree.limit.soft
	h.x.tree.limit.soft = h.x.tree.bytes() - int64(64*h.next(64))
	h.store()
	h.x.tree.limit.soft = soft
}

func (h *evictingHistory) store() {
	d := h.domain()
	s := Store{Worker: h.worker(), Domain: d, Tier: h.tier()}
	if h.next(3) > 0 {
		s.HasParent, s.Parent = true, h.key(d)
	}
	for range h.next(6) {
		s.Blocks = append(s.Blocks, Hash(1+h.next(historyBlocks)))
		s.Engine = append(s.Engine, h.key(d))
	}
	partial := h.x.Partial(s.Worker)
	var before []string
	for _, key := range s.Engine {
		if e := h.oracle.workers[s.Worker][key]; e != nil {
			for _, p := range e.blocks {
				before = append(before, p.path)
			}
		}
	}
	got, want := h.x.Store(s), h.oracle.store(s)
	switch {
	case errors.Is(got, ErrBudget):
		if want != nil && !errors.Is(want, ErrUnknownParent) {
			h.t.Fatalf("Store(%+v) = %v, want %v", s, got, want)
		}
		if !h.x.Partial(s.Worker) {
			h.t.Fatalf("Store(%+v) = %v of a worker that is not partial", s, got)
		}
		// The engine hashes may have moved to blocks that the index could not follow.
		for _, path := range before {
			h.compareAtMost(parsePath(path))
		}
	case errors.Is(want, ErrUnknownParent) && partial:
		h.t.Fatalf("Store(%+v) = %v of a partial worker, want %v", s, got, ErrBudget)
	case !errors.Is(got, want):
		h.t.Fatalf("Store(%+v) = %v, want %v", s, got, want)
	}
}

func (h *evictingHistory) remove() {
	w, t, d := h.worker(), h.tier(), h.domain()
	var engine []uint64
	for range 1 + h.next(4) {
		engine = append(engine, h.key(d))
	}
	want := h.oracle.remove(w, t, engine)
	if _, ok := h.oracle.workers[w]; !ok {
		want = len(engine)
	}
	if got := h.x.Remove(w, t, engine); got < want || got > want && !h.x.Partial(w) {
		h.t.Fatalf("Remove(%d, %d, %v) = %d, want %d or, of a partial worker, more",
			w, t, engine, got, want)
	}
}

// compare checks the index, and that no answer credits more than the oracle.
func (h *evictingHistory) compare() {
	h.t.Helper()
	checkIndex(h.t, h.x)
	for w := range Worker(historyWorkers + 1) {
		if got, most := h.x.Blocks(w), h.oracle.blocks(w); got > most || got < most && !h.x.Partial(w) {
			h.t.Fatalf("Blocks(%d) = %d, want %d or, of a partial worker, less", w, got, most)
		}
	}
	chain := make([]Hash, h.next(12))
	for i := range chain {
		chain[i] = Hash(1 + h.next(historyBlocks))
	}
	h.compareAtMost(h.domain(), chain)
	for _, held := range h.oracle.workers {
		for _, e := range held {
			for _, p := range e.blocks {
				h.compareAtMost(parsePath(p.path))
			}
			return // one is enough: the iteration order is random
		}
	}
}

func (h *evictingHistory) compareAtMost(d Domain, chain []Hash) {
	h.t.Helper()
	h.buf = h.x.Match(h.buf[:0], d, chain)
	most := map[Worker]Overlap{}
	for _, o := range h.oracle.match(d, chain) {
		most[o.Worker] = o
	}
	found := map[Worker]Overlap{}
	for _, got := range h.buf {
		found[got.Worker] = got
		if m := most[got.Worker]; got.Blocks > m.Blocks || got.GPU > m.GPU {
			h.t.Fatalf("Match(%d, %v) = %+v, want at most %+v", d, chain, got, m)
		}
	}
	for w, m := range most {
		if found[w] != m && !h.x.Partial(w) {
			h.t.Fatalf("Match(%d, %v) = %+v of a worker that is not partial, want %+v",
				d, chain, found[w], m)
		}
	}
}

// FuzzBudget runs any history with evictions: the index must stay consistent, never credit more
// than the oracle, and agree for workers without evictions.
func FuzzBudget(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 600))
	}
	f.Fuzz(func(t *testing.T, in []byte) { newEvictingHistory(t, in[:min(len(in), 1024)]).run() })
}

func TestRandomBudgets(t *testing.T) {
	evicted, refused := 0, uint64(0)
	for seed := range uint64(budgetHistories) {
		h := newEvictingHistory(t, randomBytes(seed, 1200))
		h.run()
		evicted += h.evicted
		refused += h.x.Stats().EvictedParents + h.x.Stats().Refused
	}
	if evicted < 2*budgetHistories || refused < 2*budgetHistories {
		t.Errorf("the histories had %d evictions and %d refused stores: too few to show anything",
			evicted, refused)
	}
}

// TestBudgetTakesAliases runs histories with aliases. The oracle cannot tell the exact answers,
// but the index must be consistent, and empty after the eviction of all.
func TestBudgetTakesAliases(t *testing.T) {
	aliases := 0
	for seed := range uint64(aliasHistories) {
		h := newHistory(t, randomBytes(seed, 1200))
		s := evictingHistory{history: h}
		for len(h.in) > 0 {
			if h.next(4) == 0 {
				s.evict()
			} else {
				err := h.x.Store(Store{
					Worker: h.worker(), Domain: s.domain(), Tier: Tier(h.next(tiers)),
					Engine: hashesOf(h.engine(), h.engine()), Blocks: chain(Hash(h.next(3)), 1),
				})
				if err != nil && !errors.Is(err, ErrUnknownWorker) {
					t.Fatal(err)
				}
			}
			if h.next(8) == 0 {
				h.x.Remove(h.worker(), h.tier(), hashesOf(h.engine()))
			}
			for w := range Worker(len(h.x.workers.list())) {
				if o := h.x.workers.get(w); o != nil {
					aliases += len(o.aliases)
				}
			}
			if len(h.alive) < historyWorkers {
				h.addWorker()
			}
			checkIndex(t, h.x)
		}
		h.x.evictor.mu.Lock()
		for h.x.evictor.evictLocked(1 << 20) {
			continue
		}
		h.x.evictor.mu.Unlock()
		checkIndex(t, h.x)
		if st := h.x.Stats(); st.Entries+st.Holds+st.Runs > 0 {
			t.Fatalf("Stats() = %+v after all was evicted", st)
		}
	}
	if aliases == 0 {
		t.Error("no history had an alias")
	}
}
