package radix

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// bound has the valid answers of look-ups beside writers for one worker: its states at some
// moment.
type bound struct {
	name      string
	blocks    []int // the only answers; 0 is no answer
	maxBlocks int   // or else anything up to this
	gpu       []int
	write     func(x *Index, w Worker, r *rand.Rand) // one round of changes; nil: no writer
	start     func(x *Index, w Worker)
}

const (
	chainLen  = 100
	chainFork = 50
)

func (b *bound) allows(o Overlap) bool {
	if o.GPU > o.Blocks || o.GPU < 0 {
		return false
	}
	if b.blocks == nil {
		return int(o.Blocks) <= b.maxBlocks
	}
	return slices.Contains(b.blocks, int(o.Blocks)) && slices.Contains(b.gpu, int(o.GPU))
}

// sequence returns n blocks and engine hashes that are unique to the tag.
func sequence(tag uint64, n int) ([]Hash, []uint64) {
	blocks, engine := make([]Hash, n), make([]uint64, n)
	for i := range n {
		engine[i] = tag<<32 + uint64(i)
		blocks[i] = Hash(engine[i])
	}
	return blocks, engine
}

// mayStore ignores refusals: another writer may have removed the parent.
func mayStore(x *Index, w Worker, t Tier, parent int, engine []uint64, blocks []Hash) {
	s := Store{Worker: w, Tier: t, Engine: engine, Blocks: blocks}
	if parent >= 0 {
		s.HasParent, s.Parent = true, uint64(parent)
	}
	_ = x.Store(s)
}

// bounds returns the workers of TestReadersBesideWriters, which looks up the chain (c, e) of
// tag 0.
func bounds(c []Hash, e []uint64) []bound {
	whole := func(x *Index, w Worker) { mayStore(x, w, TierGPU, -1, e, c) }
	return []bound{
		{name: "idle", blocks: []int{chainLen}, gpu: []int{chainLen}, start: whole},
		{
			name: "hole comes and goes", blocks: []int{40, chainLen}, gpu: []int{40, chainLen}, start: whole,
			write: func(x *Index, w Worker, _ *rand.Rand) {
				x.Remove(w, TierGPU, e[40:41])
				mayStore(x, w, TierGPU, 39, e[40:41], c[40:41])
			},
		},
		{
			name: "GPU copy comes and goes", blocks: []int{chainLen}, gpu: []int{20, chainLen},
			start: func(x *Index, w Worker) {
				whole(x, w)
				mayStore(x, w, TierCPU, -1, e, c)
			},
			write: func(x *Index, w Worker, _ *rand.Rand) {
				x.Remove(w, TierGPU, e[20:21])
				mayStore(x, w, TierGPU, 19, e[20:21], c[20:21])
			},
		},
		{
			name: "tails of other content", blocks: []int{chainFork}, gpu: []int{chainFork},
			start: func(x *Index, w Worker) { mayStore(x, w, TierGPU, -1, e[:chainFork], c[:chainFork]) },
			write: func(x *Index, w Worker, r *rand.Rand) {
				// Few tags make runs shared, trimmed, sealed and dead while others extend them.
				blocks, engine := sequence(1+r.Uint64N(3), 1+r.IntN(60))
				mayStore(x, w, TierGPU, chainFork-1, engine, blocks)
				slices.Reverse(engine)
				x.Remove(w, TierGPU, engine)
			},
		},
		{
			name: "clears", maxBlocks: chainLen,
			write: func(x *Index, w Worker, r *rand.Rand) {
				mayStore(x, w, Tier(r.IntN(tiers)), -1, e, c)
				x.Clear(w)
			},
		},
		{
			name: "prefix only", maxBlocks: 30,
			write: func(x *Index, w Worker, r *rand.Rand) {
				blocks, engine := sequence(1+r.Uint64N(3), 20)
				n := r.IntN(31)
				mayStore(x, w, TierGPU, -1, append(e[:n:n], engine...), append(c[:n:n], blocks...))
				x.Remove(w, TierGPU, e[r.IntN(30):30])
				x.Clear(w)
			},
		},
	}
}

// TestReadersBesideWriters looks up one chain while writers change it: each answer must be a
// state of the worker during the look-up.
func TestReadersBesideWriters(t *testing.T) {
	x := New(Config{Seed: 1, Stripes: 2})
	d := x.Domain(DomainKey{})
	c, e := sequence(0, chainLen)
	cast := bounds(c, e)
	for range cast {
		x.AddWorker()
	}
	for i, b := range cast {
		if b.start != nil {
			b.start(x, Worker(i))
		}
	}
	var writers, readers sync.WaitGroup
	for i, b := range cast {
		if b.write == nil {
			continue
		}
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for range rounds {
				b.write(x, Worker(i), r)
			}
		})
	}
	writers.Go(func() { comeAndGo(x, e[:10], c[:10]) })
	var done atomic.Bool
	for range 2 {
		readers.Go(func() {
			var buf []Overlap
			for !done.Load() {
				buf = x.Match(buf[:0], d, c)
				checkAnswer(t, cast, buf)
			}
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	checkIndex(t, x)
}

// comeAndGo adds and removes workers, whose ids are reused.
func comeAndGo(x *Index, e []uint64, c []Hash) {
	for i := range rounds {
		a, b := x.AddWorker(), x.AddWorker()
		mayStore(x, a, TierGPU, -1, e, c)
		mayStore(x, b, TierGPU, -1, e[:5], c[:5])
		x.RemoveWorker(a)
		if i%16 == 0 {
			_ = x.Stats()
			x.Dump(io.Discard, 50)
		}
		x.RemoveWorker(b)
	}
}

func checkAnswer(t *testing.T, cast []bound, got []Overlap) {
	t.Helper()
	seen := make([]bool, len(cast))
	for i, o := range got {
		if slices.ContainsFunc(got[:i], func(p Overlap) bool { return p.Worker == o.Worker }) {
			t.Errorf("worker %d is answered twice: %v", o.Worker, got)
		}
		if int(o.Worker) >= len(cast) {
			if o.Blocks > 10 || o.GPU > o.Blocks {
				t.Errorf("a passing worker holds %+v, want 10 blocks at most", o)
			}
			continue
		}
		seen[o.Worker] = true
		if b := &cast[o.Worker]; !b.allows(o) {
			t.Errorf("%s: %+v was never so", b.name, o)
		}
	}
	for i := range cast {
		if !seen[i] && cast[i].blocks != nil {
			t.Errorf("%s: no answer", cast[i].name)
		}
	}
}

// TestWritersAgreeWithNaive lets writers race on one small tree, each with its own worker, and
// compares with the oracle at the end.
func TestWritersAgreeWithNaive(t *testing.T) {
	const writers, ops = 4, 2000
	for seed := range uint64(writerHistories) {
		h := newHistory(t, nil)
		models := make([]*naive, writers)
		var wg sync.WaitGroup
		for i := range models {
			w := h.x.AddWorker()
			h.alive = append(h.alive, w)
			m := newNaive()
			m.domains = historyDomains
			m.workers[w] = make(map[uint64]*naiveEntry)
			models[i] = m
			wg.Go(func() {
				in := randomBytes(seed*writers+uint64(w), ops*12)
				own := &history{t: t, in: in, x: h.x, oracle: m, alive: []Worker{w}}
				for range ops {
					own.ownOp(w)
				}
			})
		}
		wg.Wait()
		for _, m := range models {
			maps.Copy(h.oracle.workers, m.workers)
		}
		checkIndex(t, h.x)
		h.compareAll()
	}
}

// ownOp makes one op on w alone.
func (h *history) ownOp(w Worker) {
	switch h.next(32) {
	case 0:
		h.x.Clear(w)
		h.oracle.workers[w] = make(map[uint64]*naiveEntry)
	default:
		s := Store{Worker: w, Domain: Domain(h.next(historyDomains)), Tier: Tier(h.next(tiers)), HasParent: h.next(2) > 0, Parent: h.engine()}
		for range h.next(4) {
			s.Blocks = append(s.Blocks, Hash(1+h.next(historyBlocks)))
			s.Engine = append(s.Engine, h.engine())
		}
		if got, want := h.x.Store(s), h.oracle.store(s); !errors.Is(got, want) {
			h.t.Errorf("Store(%+v) = %v, want %v", s, got, want)
		}
		gone, tier := []uint64{h.engine(), h.engine(), h.engine()}, Tier(h.next(tiers))
		if got, want := h.x.Remove(w, tier, gone), h.oracle.remove(w, tier, gone); got != want {
			h.t.Errorf("Remove(%d, %d, %v) = %d, want %d", w, tier, gone, got, want)
		}
	}
}
