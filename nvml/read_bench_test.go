//go:build cgo && linux

package nvml_test

import (
	"fmt"
	"testing"

	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// BenchmarkRead is the monitor's full read of the fake, with its number of calls. The fake
// answers each in about a microsecond, a driver in 2 to 50: the number holds for both.
func BenchmarkRead(b *testing.B) {
	for _, gpus := range []int{1, 8} {
		b.Run(fmt.Sprintf("gpus=%d", gpus), func(b *testing.B) {
			s := nvmltest.HGX()
			s.GPUs = s.GPUs[:gpus]
			set(b, s)
			r := nvml.OpenReads(fake.Library)
			defer r.Close()
			r.Read()
			before, err := fake.Calls()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				r.Read()
				n++
			}
			after, err := fake.Calls()
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(after-before)/float64(n), "calls/op")
		})
	}
}

// BenchmarkFirstRead includes the facts read once a minute: names and ends of links.
func BenchmarkFirstRead(b *testing.B) {
	set(b, nvmltest.HGX())
	b.ReportAllocs()
	var calls uint64
	n := 0
	for b.Loop() {
		r := nvml.OpenReads(fake.Library)
		before, err := fake.Calls()
		if err != nil {
			b.Fatal(err)
		}
		r.Read()
		after, err := fake.Calls()
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		calls += after - before
		n++
	}
	b.ReportMetric(float64(calls)/float64(n), "calls/op")
}
