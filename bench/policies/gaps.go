package policies

import (
	"math/bits"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// gaps is a distribution of times between tokens: bins of 1/128 of a power of two, 0.6 % of the
// value, with the exact sum and maximum.
type gaps struct {
	n    int64
	sum  float64
	most clock
	bins []int64
}

const (
	gapBits  = 7
	leastGap = 20 // bits of 1 us in ps; shorter gaps share the first bin
	gapBins  = (63 - leastGap) << gapBits
)

// gapBin is the bin of a gap.
func gapBin(d clock) int {
	shift := bits.Len64(uint64(d)) - 1 - gapBits
	if shift < leastGap-gapBits {
		return 0
	}
	return (shift-leastGap+gapBits)<<gapBits | int(uint64(d)>>shift)&(1<<gapBits-1)
}

// gapEdge is the first gap behind a bin.
func gapEdge(bin int) clock {
	bin++
	return clock((1<<gapBits | bin&(1<<gapBits-1))) << (bin>>gapBits + leastGap - gapBits)
}

// add enters a gap, count times.
func (g *gaps) add(d clock, count int) {
	if count == 0 {
		return
	}
	if g.bins == nil {
		g.bins = make([]int64, gapBins)
	}
	g.n += int64(count)
	g.sum += float64(d) * float64(count)
	g.most = max(g.most, d)
	g.bins[gapBin(d)] += int64(count)
}

// addSteps enters steps gaps, each more longer than the one before, count times.
func (g *gaps) addSteps(d, more clock, steps, count int) {
	for steps > 0 {
		same := steps
		if more > 0 {
			same = min(steps, int((gapEdge(gapBin(d))-d-1)/more)+1)
		}
		k := clock(same)
		g.add(d, count*same)
		g.sum += float64(more*(k*(k-1)/2)) * float64(count)
		g.most = max(g.most, d+(k-1)*more)
		d, steps = d+k*more, steps-same
	}
}

func (g *gaps) merge(other *gaps) {
	if other.n == 0 {
		return
	}
	if g.bins == nil {
		g.bins = make([]int64, gapBins)
	}
	g.n, g.sum, g.most = g.n+other.n, g.sum+other.sum, max(g.most, other.most)
	for i, n := range other.bins {
		g.bins[i] += n
	}
}

// times sums the distribution up; percentiles are upper ends of bins.
func (g *gaps) times() (t trace.Times) {
	if g.n == 0 {
		return t
	}
	t.Mean, t.Max = time.Duration(g.sum/float64(g.n)/float64(nanosecond)), g.most.duration()
	at, seen := 0, int64(0)
	for _, p := range []struct {
		percent int64
		into    *time.Duration
	}{{50, &t.P50}, {90, &t.P90}, {95, &t.P95}, {99, &t.P99}} {
		for want := (g.n*p.percent + 99) / 100; seen < want; at++ {
			seen += g.bins[at]
		}
		*p.into = min(gapEdge(at-1), g.most).duration()
	}
	return t
}
