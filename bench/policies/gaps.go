package policies

import (
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// gaps is a distribution of times between tokens, in picoseconds.
type gaps struct{ trace.Histogram }

// add enters a gap.
func (g *gaps) add(d clock) { g.Add(int64(d), 1) }

// addSteps enters steps gaps, each more longer than the one before, count times.
func (g *gaps) addSteps(d, more clock, steps, count int) {
	g.AddRow(int64(d), int64(more), int64(count), int64(steps))
}

// times sums the distribution up; percentiles are upper ends of bins.
func (g *gaps) times() trace.Times {
	at := func(q float64) time.Duration { return clock(g.Quantile(q)).duration() }
	return trace.Times{
		Mean: time.Duration(g.Mean() / float64(nanosecond)), P50: at(.5), P90: at(.9), P95: at(.95), P99: at(.99), Max: clock(g.Max()).duration(),
	}
}
