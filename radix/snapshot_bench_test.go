package radix_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/warmpath/warmpath/radix"
)

// write writes a snapshot of all workers of a workload.
func (w *workload) write(tb testing.TB, x *radix.Index, out io.Writer) radix.SnapshotCounts {
	tb.Helper()
	s, err := radix.NewSnapshotWriter(x, out)
	if err != nil {
		tb.Fatal(err)
	}
	for i := range w.workers {
		if err := s.Take(radix.Worker(i), "worker", nil); err != nil {
			tb.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	count, err := s.Close()
	if err != nil {
		tb.Fatal(err)
	}
	return count
}

// BenchmarkSnapshot writes and loads the blocks of 64 workers: a million entries, unique (conv)
// or shared.
func BenchmarkSnapshot(b *testing.B) {
	for _, family := range []struct {
		name string
		make func(testing.TB) *workload
	}{{"conv", conversation}, {"shared", sharedPrompts}} {
		b.Run(family.name, func(b *testing.B) {
			w := family.make(b)
			x, d := w.start()
			w.apply(x, d, w.ops[:w.warm], w.reversed(), all)
			var out bytes.Buffer
			count := w.write(b, x, &out)
			data := out.Bytes()
			each := 1e6 / float64(count.Entries)
			b.Run("write", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.write(b, x, io.Discard)
				}
				b.ReportMetric(float64(len(data))/float64(count.Entries), "B/entry")
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1000*each, "ms/Mentries")
			})
			b.Run("load", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					y, _, err := radix.LoadSnapshot(bytes.NewReader(data), radix.Config{})
					if err != nil || y.Stats().Entries != count.Entries {
						b.Fatal(err, y.Stats(), count)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)*1000*each, "ms/Mentries")
			})
		})
	}
}
