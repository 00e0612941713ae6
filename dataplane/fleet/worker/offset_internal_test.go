package worker

import (
	"slices"
	"testing"
	"time"
)

// Workers that are added at once are probed apart, however many they are.
func TestProbesAreSpread(t *testing.T) {
	const interval = 250 * time.Millisecond
	for _, n := range []int{1, 2, 7, 100, 1000} {
		at := make([]time.Duration, n)
		for i := range at {
			at[i] = (&monitor{number: uint64(i)}).offset(interval)
			if at[i] <= 0 || at[i] > interval {
				t.Fatalf("worker %d is probed again after %v, want up to %v", i, at[i], interval)
			}
		}
		slices.Sort(at)
		for i := 1; i < n; i++ {
			// Steps of the golden ratio leave gaps of three lengths at most, the largest below
			// 2.62 and the smallest above 0.38 of the mean.
			if gap, mean := at[i]-at[i-1], interval/time.Duration(n); gap > 3*mean || gap < mean/3 {
				t.Errorf("of %d workers two are probed %v apart, the mean is %v", n, gap, mean)
			}
		}
	}
}
