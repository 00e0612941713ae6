package radix_test

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/index"
	"github.com/warmpath/warmpath/radix"
)

// workload is a workload of bench/index.
type workload struct {
	*index.Workload
	workers, warm int
	ops           []index.Op
}

func newWorkload(tb testing.TB, trace []index.Request, randomly bool) *workload {
	tb.Helper()
	w, err := index.Generate(trace, index.Options{Workers: 64, Blocks: 16384, IDBlocks: 32, Random: randomly})
	if err != nil {
		tb.Fatal(err)
	}
	return &workload{w, w.Workers, w.Warm, w.Ops}
}

// conversation has unique blocks. WARMPATH_TRACE is the file of another trace.
func conversation(tb testing.TB) *workload {
	tb.Helper()
	file := os.Getenv("WARMPATH_TRACE")
	if file == "" {
		return newWorkload(tb, index.Conversation(8000), false)
	}
	f, err := os.Open(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	trace, err := index.ReadTrace(f, 0)
	if err != nil {
		tb.Fatal(err)
	}
	return newWorkload(tb, trace, false)
}

// sharedPrompts has shared blocks.
func sharedPrompts(tb testing.TB) *workload {
	tb.Helper()
	return newWorkload(tb, index.Shared(6000), true)
}

// start returns an empty index for a workload, with its workers.
func (w *workload) start() (*radix.Index, radix.Domain) {
	p := index.NewPlayer(w.Workload)
	return p.Index, p.Domain
}

// apply makes changes on an index of start.
func (w *workload) apply(x *radix.Index, d radix.Domain, ops []index.Op, _ [][]uint64, _ func(int) bool) (refused int) {
	p := index.Player{Index: x, Domain: d, Workload: w.Workload}
	return p.Apply(ops)
}

func (w *workload) reversed() [][]uint64 { return nil }

func all(int) bool { return true }

// BenchmarkWorkload runs the two workloads of the peers' indexes with 64 workers: all changes
// by one writer and by two, look-ups at 70 % of the trace, their exactness, and the heap of an
// entry. `bin/bench index` measures more. Use -benchtime 3x: an iteration takes seconds.
func BenchmarkWorkload(b *testing.B) {
	for _, family := range []struct {
		name string
		make func(testing.TB) *workload
	}{{"conv", conversation}, {"shared", sharedPrompts}} {
		b.Run(family.name, func(b *testing.B) {
			w := family.make(b).Workload
			b.Run("writers=1", func(b *testing.B) { benchApply(b, w, 1) })
			b.Run("writers=2", func(b *testing.B) { benchApply(b, w, 2) })
			b.Run("match", func(b *testing.B) { benchWorkloadMatch(b, w) })
		})
	}
}

func benchApply(b *testing.B, w *index.Workload, writers int) {
	b.Helper()
	parts, blocks := make([][]index.Op, writers), 0
	for _, o := range w.Ops {
		if o.Kind != index.Query {
			parts[int(o.Worker)%writers] = append(parts[int(o.Worker)%writers], o)
			blocks += int(o.End - o.Start)
		}
	}
	rates := make([]float64, 0, b.N)
	for range b.N {
		p := index.NewPlayer(w)
		runtime.GC()
		begin := time.Now()
		if n := p.ApplyParts(parts); n > 0 {
			b.Errorf("%d changes were refused", n)
		}
		rates = append(rates, float64(blocks)/time.Since(begin).Seconds()/1e6)
	}
	slices.Sort(rates)
	b.ReportMetric(rates[len(rates)/2], "Mblocks/s")
	b.ReportMetric(0, "ns/op")
}

// benchWorkloadMatch times single look-ups.
func benchWorkloadMatch(b *testing.B, w *index.Workload) {
	b.Helper()
	before := liveBytes()
	p := index.NewPlayer(w)
	p.Apply(w.Ops[:w.Warm])
	bytes := float64(liveBytes()-before) / float64(w.Pairs)
	if n := p.Index.Stats().Entries; n != w.Pairs {
		b.Errorf("%d entries, want %d", n, w.Pairs)
	}
	if n := p.Wrong(); n > 0 {
		b.Errorf("%d of %d answers are wrong", n, len(w.Tests))
	}
	buf := make([]radix.Overlap, 0, w.Workers)
	var times []int
	for range max(b.N, 10) {
		for _, t := range w.Tests {
			begin := time.Now()
			buf = p.Match(buf[:0], t.Req)
			times = append(times, int(time.Since(begin)))
		}
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2]), "p50-ns")
	b.ReportMetric(float64(times[len(times)*99/100]), "p99-ns")
	b.ReportMetric(bytes, "B/entry")
	b.ReportMetric(0, "ns/op")
}

func liveBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
