package radix_test

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/radix"
)

// start returns an empty index for a workload, with its workers.
func (w *workload) start() (*radix.Index, radix.Domain) {
	x := radix.New(radix.Config{Seed: 1})
	d := x.Domain(radix.DomainKey{Model: "m", BlockSize: 16})
	for range w.workers {
		x.AddWorker()
	}
	return x, d
}

// reversed returns each request's engine hashes from the last to the first, as removals name them.
func (w *workload) reversed() [][]uint64 {
	out := make([][]uint64, len(w.engine))
	for i, e := range w.engine {
		out[i] = slices.Clone(e)
		slices.Reverse(out[i])
	}
	return out
}

// apply makes the changes of the workers that mine picks, in order.
func (w *workload) apply(x *radix.Index, d radix.Domain, ops []op, back [][]uint64, mine func(worker int) bool) (failed int) {
	for i := range ops {
		o := &ops[i]
		if !mine(o.worker) {
			continue
		}
		if o.remove {
			n := len(back[o.req])
			failed += x.Remove(radix.Worker(o.worker), radix.TierGPU, back[o.req][n-o.end:n-o.start])
			continue
		}
		s := radix.Store{Worker: radix.Worker(o.worker), Domain: d, Engine: w.engine[o.req][o.start:o.end], Blocks: w.blocks[o.req][o.start:o.end]}
		if o.start > 0 {
			s.HasParent, s.Parent = true, w.engine[o.req][o.start-1]
		}
		if x.Store(s) != nil {
			failed++
		}
	}
	return failed
}

func all(int) bool { return true }

func liveBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// BenchmarkWorkload runs the two workloads that the peers' indexes are measured on: applying all changes with one writer and two,
// look-ups at 70 % of the trace, their exactness, and the heap an entry takes there. Give it -benchtime 3x: an iteration
// takes seconds.
func BenchmarkWorkload(b *testing.B) {
	for _, family := range []struct {
		name string
		make func(testing.TB) *workload
	}{{"conv", conversation}, {"shared", sharedPrompts}} {
		b.Run(family.name, func(b *testing.B) {
			w := family.make(b)
			back := w.reversed()
			b.Run("writers=1", func(b *testing.B) { w.benchApply(b, back, 1) })
			b.Run("writers=2", func(b *testing.B) { w.benchApply(b, back, 2) })
			b.Run("match", func(b *testing.B) { w.benchMatch(b, back, false) })
			b.Run("mixed", func(b *testing.B) { w.benchMatch(b, back, true) })
			runtime.KeepAlive(back)
		})
	}
}

func (w *workload) benchApply(b *testing.B, back [][]uint64, writers int) {
	b.Helper()
	rates := make([]float64, 0, b.N)
	for range b.N {
		x, d := w.start()
		runtime.GC()
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range writers {
			wg.Go(func() {
				if n := w.apply(x, d, w.ops, back, func(worker int) bool { return worker%writers == i }); n > 0 {
					b.Errorf("%d changes failed", n)
				}
			})
		}
		wg.Wait()
		rates = append(rates, float64(w.applied)/time.Since(begin).Seconds()/1e6)
	}
	slices.Sort(rates)
	b.ReportMetric(rates[len(rates)/2], "Mblocks/s")
	b.ReportMetric(0, "ns/op")
}

// benchMatch times single look-ups; beside, a writer applies the rest of the trace meanwhile.
func (w *workload) benchMatch(b *testing.B, back [][]uint64, beside bool) {
	b.Helper()
	before := liveBytes()
	x, d := w.start()
	w.apply(x, d, w.ops[:w.warm], back, all)
	bytes := float64(liveBytes()-before) / float64(w.pairs)
	buf := make([]radix.Overlap, 0, w.workers)
	w.check(b, x, d)
	var times []int
	var writer sync.WaitGroup
	rate := 0.0
	if beside {
		writer.Go(func() {
			begin, blocks := time.Now(), 0
			for _, o := range w.ops[w.warm:] {
				blocks += o.end - o.start
			}
			w.apply(x, d, w.ops[w.warm:], back, all)
			rate = float64(blocks) / time.Since(begin).Seconds() / 1e6
		})
	}
	for range max(b.N, 10) {
		for _, t := range w.tests {
			chain := w.blocks[t.req][:w.prompt[t.req]]
			begin := time.Now()
			buf = x.Match(buf[:0], d, chain)
			times = append(times, int(time.Since(begin)))
		}
	}
	writer.Wait()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
	b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
	b.ReportMetric(0, "ns/op")
	if beside {
		b.ReportMetric(rate, "Mblocks/s")
		return
	}
	b.ReportMetric(bytes, "B/entry")
}

// check compares the answers with the truth.
func (w *workload) check(tb testing.TB, x *radix.Index, d radix.Domain) {
	tb.Helper()
	if n := x.Stats().Entries; n != w.pairs {
		tb.Errorf("%d entries, want %d", n, w.pairs)
	}
	wrong := 0
	for _, t := range w.tests {
		sum := uint64(0)
		for _, o := range x.Match(nil, d, w.blocks[t.req][:w.prompt[t.req]]) {
			sum += uint64(o.Blocks) * uint64(2*int(o.Worker)+1)
		}
		if sum != t.sum {
			wrong++
		}
	}
	if wrong > 0 {
		tb.Errorf("%d of %d answers are wrong", wrong, len(w.tests))
	}
}
