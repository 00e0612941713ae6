package proxy

import (
	"testing"
	"time"
)

// GrowthOf is growth of descriptors.
func GrowthOf(rests []Sample, slack float64) Growth {
	return growth("descriptors", rests, slack, func(s Sample) float64 { return float64(s.Descriptors) })
}

// JudgeOf is the verdict on a router's rests.
func JudgeOf(rests []Sample) (*Soak, error) {
	s := &Soak{Rests: rests}
	return s, s.judge()
}

// Hurry has workers fail often and briefly, and what comes before a measurement be short, until the test ends.
func Hurry(t *testing.T) {
	t.Helper()
	every, long, warm, capacity := faultEvery, faultTime, warmTime, capacityTime
	rest := restTime
	faultEvery, faultTime, capacityTime = 300*time.Millisecond, 100*time.Millisecond, 300*time.Millisecond
	warmTime, restTime = 50*time.Millisecond, 50*time.Millisecond
	t.Cleanup(func() {
		faultEvery, faultTime, warmTime, capacityTime, restTime = every, long, warm, capacity, rest
	})
}
