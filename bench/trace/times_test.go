package trace_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/bench/trace"
)

// naivePercentile counts, as the definition says: the smallest value that at least p of 100
// values do not exceed.
func naivePercentile(all []time.Duration, p int) time.Duration {
	best := slices.Max(all)
	for _, candidate := range all {
		n := 0
		for _, v := range all {
			if v <= candidate {
				n++
			}
		}
		if n*100 >= p*len(all) {
			best = min(best, candidate)
		}
	}
	return best
}

func TestTimesAgainstNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		all := make([]time.Duration, 1+rnd.IntN(120))
		for i := range all {
			all[i] = time.Duration(rnd.IntN(50))
		}
		got := trace.TimesOf(slices.Clone(all))
		want := trace.Times{P50: naivePercentile(all, 50), P90: naivePercentile(all, 90), P95: naivePercentile(all, 95), P99: naivePercentile(all, 99), Max: slices.Max(all), Mean: got.Mean}
		if got != want {
			t.Fatalf("TimesOf(%v) = %+v, want %+v", all, got, want)
		}
	}
	if got := trace.TimesOf([]time.Duration{1, 2, 6}); got.Mean != 3 {
		t.Errorf("the mean of 1, 2 and 6 is %d, want 3", got.Mean)
	}
	if got := trace.TimesOf(nil); got != (trace.Times{}) {
		t.Errorf("TimesOf(nil) = %+v, want zeros", got)
	}
}
