//go:build !race

package radix_test

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/index"
	"github.com/warmpath/warmpath/radix"
)

// workloads are those of the memory tests.
var workloads = []struct {
	name string
	make func(testing.TB) *workload
}{
	{"conversation", func(tb testing.TB) *workload {
		tb.Helper()
		return newWorkload(tb, index.Conversation(3000), false)
	}},
	{"shared", func(tb testing.TB) *workload {
		tb.Helper()
		return newWorkload(tb, index.Shared(2500), true)
	}},
}

// player returns an empty index with a budget of most bytes.
func player(w *workload, most int64) *index.Player {
	p := &index.Player{Index: radix.New(radix.Config{Seed: 1, MaxBytes: most}), Workload: w.Workload}
	p.Domain = p.Index.Domain(radix.DomainKey{Model: "workload"})
	for range w.Workers {
		p.Index.AddWorker()
	}
	return p
}

// TestBytesAreTrue compares the counted bytes with the heap while the index fills, and after
// all workers have gone.
func TestBytesAreTrue(t *testing.T) {
	for _, family := range workloads {
		t.Run(family.name, func(t *testing.T) {
			w := family.make(t)
			before := liveBytes()
			p := player(w, 0)
			for part := range 4 {
				p.Apply(w.Ops[len(w.Ops)*part/4 : len(w.Ops)*(part+1)/4])
				heap, counted := liveBytes()-before, p.Index.Stats().Bytes
				t.Logf("%d %% of the workload: %d bytes counted, %d on the heap: %.3f",
					25*(part+1), counted, heap, float64(counted)/float64(heap))
				if counted < heap*85/100 || counted > heap*115/100 {
					t.Errorf("%d bytes are counted, %d are on the heap", counted, heap)
				}
			}
			full := liveBytes() - before
			for id := range w.Workers {
				if id%2 == 0 {
					p.Index.Clear(radix.Worker(id))
				} else {
					p.Index.RemoveWorker(radix.Worker(id))
				}
			}
			left, counted := liveBytes()-before, p.Index.Stats().Bytes
			t.Logf("%d bytes when full; %d after clears, %d counted", full, left, counted)
			if left > full/20 || counted > full/20 {
				t.Errorf("%d bytes stay of %d, %d are counted", left, full, counted)
			}
			runtime.KeepAlive(p)
		})
	}
}

// quality compares an index within a budget with an unbounded one.
type quality struct {
	best, bestUnbounded int // sum of the largest overlaps
	most                int // bytes
	stores, refused     int
	over                int // answers above the right one
}

// play plays a workload with its look-ups on an index with a budget and on an unbounded one.
func play(tb testing.TB, w *workload, most int64) (q quality, took, tookUnbounded time.Duration, x *radix.Index) {
	tb.Helper()
	p, all := player(w, most), player(w, 0)
	var buf, bufAll []radix.Overlap
	told := make([]int32, w.Workers)
	for i := range w.Ops {
		op := w.Ops[i : i+1]
		if op[0].Kind == index.Query {
			bufAll = all.Match(bufAll[:0], op[0].Req)
			buf = p.Match(buf[:0], op[0].Req)
			q.best += deepest(buf)
			q.bestUnbounded += deepest(bufAll)
			clear(told)
			for _, o := range bufAll {
				told[o.Worker] = o.Blocks
			}
			for _, o := range buf {
				if o.Blocks > told[o.Worker] {
					q.over++
				}
			}
			continue
		}
		begin := time.Now()
		all.Apply(op)
		middle := time.Now()
		refused := p.Apply(op)
		took, tookUnbounded = took+time.Since(middle), tookUnbounded+middle.Sub(begin)
		if op[0].Kind == index.Store {
			q.stores++
			q.refused += refused
		}
		q.most = max(q.most, p.Index.Stats().Bytes)
	}
	return q, took, tookUnbounded, p.Index
}

func deepest(all []radix.Overlap) (n int) {
	for _, o := range all {
		n = max(n, int(o.Blocks))
	}
	return n
}

// TestBudgetHoldsAtInsert plays workloads with half of the memory they need: the index is
// within the budget after every call, never credits more than an unbounded one, and finds most
// blocks.
func TestBudgetHoldsAtInsert(t *testing.T) {
	for _, family := range workloads {
		t.Run(family.name, func(t *testing.T) {
			w := family.make(t)
			all := player(w, 0)
			need := 0
			for i := range w.Ops {
				all.Apply(w.Ops[i : i+1])
				need = max(need, all.Index.Stats().Bytes)
			}
			q, _, _, x := play(t, w, int64(need/2))
			s := x.Stats()
			t.Logf("%d bytes of %d, of which the workload needs %d: %+v, %+v",
				q.most, s.MaxBytes, need, q, s)
			if q.most > s.MaxBytes || q.most < s.MaxBytes*9/10 {
				t.Errorf("the index took %d bytes of %d", q.most, s.MaxBytes)
			}
			if q.over > 0 || s.EvictedBlocks == 0 || q.refused == q.stores {
				t.Errorf("%d answers were too good, %d blocks were evicted, %d of %d stores refused", q.over, s.EvictedBlocks, q.refused, q.stores)
			}
			// An index with a random half of the blocks would find only the beginnings.
			if q.best < q.bestUnbounded/3 {
				t.Errorf("look-ups find %d blocks, %d without a bound", q.best, q.bestUnbounded)
			}
		})
	}
}

// TestBudgetOfPlenty plays a workload with twice the memory it needs: all answers are those of
// an unbounded index.
func TestBudgetOfPlenty(t *testing.T) {
	w := workloads[0].make(t)
	all := player(w, 0)
	all.Apply(w.Ops[:w.Warm])
	p := player(w, int64(2*all.Index.Stats().Bytes))
	if n := p.Apply(w.Ops[:w.Warm]); n > 0 || p.Wrong() > 0 {
		t.Errorf("%d changes were refused, %d answers are wrong", n, p.Wrong())
	}
	if s := p.Index.Stats(); s.EvictedBlocks > 0 {
		t.Errorf("Stats() = %+v, want no evictions", s)
	}
}

// TestBudgetWithoutRoom stores more than the budget in one call: it is refused after the
// eviction of all, and the index works on.
func TestBudgetWithoutRoom(t *testing.T) {
	x := radix.New(radix.Config{Seed: 1, MaxBytes: 1})
	d, w := x.Domain(radix.DomainKey{}), x.AddWorker()
	big := radix.Store{Worker: w, Domain: d, Engine: make([]uint64, 1<<16), Blocks: make([]radix.Hash, 1<<16)}
	for i := range big.Engine {
		big.Engine[i], big.Blocks[i] = uint64(i+1), radix.Hash(i+1)
	}
	small := big
	small.Engine, small.Blocks = big.Engine[:100], big.Blocks[:100]
	if err := x.Store(small); err != nil {
		t.Fatal(err)
	}
	if err := x.Store(big); !errors.Is(err, radix.ErrBudget) || !x.Partial(w) {
		t.Errorf("Store of %d blocks = %v", len(big.Blocks), err)
	}
	if s := x.Stats(); s.Refused != 1 || s.Bytes > s.MaxBytes {
		t.Errorf("Stats() = %+v", s)
	}
	behind := radix.Store{Worker: w, Domain: d, HasParent: true, Parent: 1 << 16, Engine: []uint64{1 << 20}, Blocks: []radix.Hash{7}}
	if err := x.Store(behind); !errors.Is(err, radix.ErrBudget) {
		t.Errorf("Store behind a refused block = %v", err)
	}
	x.Clear(w)
	if err := x.Store(behind); !errors.Is(err, radix.ErrUnknownParent) || x.Partial(w) {
		t.Errorf("Store behind an unknown block after a clear = %v", err)
	}
	if err := x.Store(small); err != nil {
		t.Errorf("Store after a clear = %v", err)
	}
}

// BenchmarkBudget plays workloads with more than, half and a quarter of the memory they need,
// beside an unbounded index: the time of writes, and the share of blocks that look-ups find.
func BenchmarkBudget(b *testing.B) {
	for _, family := range workloads {
		w := family.make(b)
		all := player(w, 0)
		all.Apply(w.Ops)
		need := int64(all.Index.Stats().Bytes)
		for _, part := range []struct {
			name string
			most int64
		}{{"plenty", 4 * need}, {"half", need / 2}, {"quarter", need / 4}} {
			b.Run(family.name+"/"+part.name, func(b *testing.B) {
				for range b.N {
					q, took, unbounded, x := play(b, w, part.most)
					b.ReportMetric(float64(q.best)/float64(q.bestUnbounded), "found/unbounded")
					b.ReportMetric(took.Seconds()/unbounded.Seconds(), "time/unbounded")
					b.ReportMetric(float64(q.refused)/float64(q.stores), "refused/store")
					b.ReportMetric(float64(x.Stats().EvictedBlocks), "evicted")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// TestReferencedStays fills an index many times over: chains looked up or stored again stay
// whole, unused ones go.
func TestReferencedStays(t *testing.T) {
	x := radix.New(radix.Config{Seed: 1, MaxBytes: 1})
	d, w, other := x.Domain(radix.DomainKey{}), x.AddWorker(), x.AddWorker()
	const depth, rounds = 100, 3000
	stretch := func(p int) radix.Store {
		s := radix.Store{Worker: w, Domain: d}
		for i := range depth {
			v := uint64(p*depth + i + 1)
			s.Engine, s.Blocks = append(s.Engine, v), append(s.Blocks, radix.Hash(v))
		}
		return s
	}
	wanted, shared, cold := stretch(0), stretch(1), stretch(2)
	for _, s := range []radix.Store{wanted, shared, cold} {
		if err := x.Store(s); err != nil {
			t.Fatal(err)
		}
	}
	found := func(s radix.Store) int { return deepest(x.Match(nil, d, s.Blocks)) }
	for p := range rounds {
		if err := x.Store(stretch(10 + p)); err != nil {
			t.Fatal(err)
		}
		if found(wanted) != depth {
			t.Fatalf("after %d prompts, %d blocks are found of the referenced chain",
				p, found(wanted))
		}
		again := shared
		again.Worker = other
		if err := x.Store(again); err != nil || x.Remove(other, radix.TierGPU, again.Engine) > 0 {
			t.Fatalf("Store = %v", err)
		}
	}
	if found(cold) > 0 || found(shared) != depth {
		t.Errorf("%d blocks are found of the unused chain, %d of the one stored repeatedly",
			found(cold), found(shared))
	}
	if s := x.Stats(); s.Bytes > s.MaxBytes || s.EvictedBlocks < 2*uint64(s.Blocks) {
		t.Errorf("Stats() = %+v", s)
	}
}
