package radix_test

import (
	"os"
	"runtime"
	"testing"

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

func liveBytes() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
