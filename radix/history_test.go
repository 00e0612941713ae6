package radix

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// history runs encoded ops on an index and on the oracle. There are few workers, blocks and
// engine hashes, so that short inputs collide.
type history struct {
	t       testing.TB
	in      []byte
	x       *Index
	oracle  *naive
	alive   []Worker
	parents uint64 // refused stores
	removes uint64 // unknown removals
	buf     []Overlap
}

const (
	historyDomains = 2
	historyWorkers = 4
	historyEngines = 24
	historyBlocks  = 3
)

func newHistory(tb testing.TB, in []byte) *history {
	tb.Helper()
	h := &history{t: tb, in: in, x: New(Config{Seed: 1, Stripes: 2, MaxBytes: 1 << 30}), oracle: newNaive()}
	for i := range historyDomains {
		h.x.Domain(DomainKey{Model: string(rune('a' + i))})
	}
	h.oracle.domains = historyDomains
	return h
}

// next returns the next input byte modulo n; 0 when the input has ended.
func (h *history) next(n int) int {
	if len(h.in) == 0 {
		return 0
	}
	b := h.in[0]
	h.in = h.in[1:]
	return int(b) % n
}

func (h *history) worker() Worker {
	// One in eight is unknown: removed, or never added.
	if len(h.alive) == 0 || h.next(8) == 7 {
		return Worker(h.next(historyWorkers + 1))
	}
	return h.alive[h.next(len(h.alive))]
}

func (h *history) tier() Tier {
	switch v := h.next(8); v {
	case 0:
		return TierUnknown
	case 1:
		return TierStorage
	case 2, 3:
		return TierCPU
	default:
		return TierGPU
	}
}

func (h *history) engine() uint64 { return uint64(h.next(historyEngines)) }

func (h *history) run() {
	for len(h.in) > 0 {
		h.op()
		h.compareSizes()
		h.compareMatch()
	}
	h.compareAll()
}

func (h *history) op() {
	switch op := h.next(16); {
	case op < 8:
		h.store()
	case op < 13:
		h.remove()
	case op == 13:
		h.addWorker()
	case op == 14:
		h.clear()
	default:
		h.removeWorker()
	}
}

func (h *history) addWorker() {
	if len(h.alive) == historyWorkers {
		return
	}
	w := h.x.AddWorker()
	if _, taken := h.oracle.workers[w]; taken || int(w) >= historyWorkers {
		h.t.Fatalf("AddWorker() = %d: taken or not dense, alive are %v", w, h.alive)
	}
	h.oracle.workers[w] = make(map[uint64]*naiveEntry)
	h.alive = append(h.alive, w)
}

func (h *history) clear() {
	w := h.worker()
	h.x.Clear(w)
	if _, ok := h.oracle.workers[w]; ok {
		h.oracle.workers[w] = make(map[uint64]*naiveEntry)
	}
}

func (h *history) removeWorker() {
	w := h.worker()
	h.x.RemoveWorker(w)
	delete(h.oracle.workers, w)
	h.alive = slices.DeleteFunc(h.alive, func(v Worker) bool { return v == w })
}

// store continues a worker's own block or starts a chain, with new or used engine hashes.
func (h *history) store() {
	s := Store{Worker: h.worker(), Domain: Domain(h.next(historyDomains)), Tier: h.tier()}
	if h.next(3) > 0 {
		s.HasParent, s.Parent = true, h.engine()
	}
	for range h.next(6) {
		s.Blocks = append(s.Blocks, Hash(1+h.next(historyBlocks)))
		s.Engine = append(s.Engine, h.engine())
	}
	got, want := h.x.Store(s), h.oracle.store(s)
	if !errors.Is(got, want) {
		h.t.Fatalf("Store(%+v) = %v, want %v", s, got, want)
	}
	if errors.Is(want, ErrUnknownParent) {
		h.parents++
	}
}

func (h *history) remove() {
	w, t := h.worker(), h.tier()
	var engine []uint64
	for range 1 + h.next(4) {
		engine = append(engine, h.engine())
	}
	want := h.oracle.remove(w, t, engine)
	if _, ok := h.oracle.workers[w]; !ok {
		want = len(engine)
	}
	h.removes += uint64(want)
	if got := h.x.Remove(w, t, engine); got != want {
		h.t.Fatalf("Remove(%d, %d, %v) = %d, want %d", w, t, engine, got, want)
	}
}

// compareMatch looks up one random chain.
func (h *history) compareMatch() {
	chain := make([]Hash, h.next(12))
	for i := range chain {
		chain[i] = Hash(1 + h.next(historyBlocks))
	}
	h.compareChain(Domain(h.next(historyDomains)), chain)
}

func (h *history) compareChain(d Domain, chain []Hash) {
	h.t.Helper()
	h.buf = h.x.Match(h.buf[:0], d, chain)
	sortOverlaps(h.buf)
	if want := h.oracle.match(d, chain); !slices.Equal(h.buf, want) {
		h.x.Dump(os.Stderr, 100)
		h.t.Fatalf("Match(%d, %v) = %v, want %v", d, chain, h.buf, want)
	}
}

func (h *history) compareSizes() {
	h.t.Helper()
	s := h.x.Stats()
	entries := 0
	for w := range Worker(historyWorkers + 1) {
		got, want := h.x.Blocks(w), h.oracle.blocks(w)
		if got != want {
			h.t.Fatalf("Blocks(%d) = %d, want %d", w, got, want)
		}
		entries += want
	}
	if s.Workers != len(h.alive) || s.Entries != entries {
		h.t.Fatalf("Stats() = %+v, want %d workers and %d entries", s, len(h.alive), entries)
	}
	if s.UnknownParents != h.parents || s.UnknownRemovals != h.removes {
		h.t.Fatalf("Stats() = %+v, want %d unknown parents and %d unknown removals",
			s, h.parents, h.removes)
	}
	if paths := h.oracle.paths(); s.Blocks < paths || entries == 0 && s.Blocks+s.Runs+s.Holds > 0 {
		h.t.Fatalf("Stats() = %+v with %d distinct blocks held", s, paths)
	}
	checkIndex(h.t, h.x)
}

// compareAll looks up every held chain, and each with one block changed.
func (h *history) compareAll() {
	seen := map[string]bool{}
	for _, held := range h.oracle.workers {
		for _, e := range held {
			for _, p := range e.blocks {
				if seen[p.path] {
					continue
				}
				seen[p.path] = true
				d, chain := parsePath(p.path)
				h.compareChain(d, chain)
				chain[len(chain)/2]++
				h.compareChain(d, chain)
			}
		}
	}
}

func parsePath(path string) (d Domain, chain []Hash) {
	word := func(s string) (v uint64) {
		for i := range len(s) {
			v |= uint64(s[i]) << (8 * i)
		}
		return v
	}
	d = Domain(word(path[:4]))
	for path = path[4:]; len(path) > 0; path = path[8:] {
		chain = append(chain, Hash(word(path[:8])))
	}
	return d, chain
}

// FuzzMatchAgainstNaive runs any history on the index and on the oracle: after each step all
// answers and counts must be equal, and the index consistent.
func FuzzMatchAgainstNaive(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 600))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		// Longer inputs find no more than two shorter ones, and the oracle is slow.
		newHistory(t, in[:min(len(in), 4096)]).run()
	})
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(plainHistories) {
		newHistory(t, randomBytes(1000+seed, 1500)).run()
	}
}

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]byte, n)
	// Workers first: nothing happens without them.
	for i := range out {
		out[i] = byte(r.Uint32())
		if i < 3*historyWorkers {
			out[i] = 13
		}
	}
	return out
}

// TestHistoriesWithoutBlockTable runs histories on an index without free handles: all copies
// are entries.
func TestHistoriesWithoutBlockTable(t *testing.T) {
	for seed := range uint64(50) {
		h := newHistory(t, randomBytes(seed, 1500))
		h.x.tree.blocks.runs.last = maxHandle
		h.run()
		if h.x.tree.blocks.slots.Load() != 0 {
			t.Fatal("the block table has runs without handles")
		}
	}
}
