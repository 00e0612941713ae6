package store

import (
	"testing"
	"time"
)

func TestRate(t *testing.T) {
	var s rate
	add := func(n int, rate float64) {
		for range n {
			s.add(1<<20, time.Duration(float64(1<<20)/rate*1e9))
		}
	}
	want := func(what string, rate float64) {
		t.Helper()
		if got := s.get(); got < 0.99*rate || got > 1.01*rate {
			t.Errorf("%s: %.3g, want %.3g", what, got, rate)
		}
	}
	s.add(minSample-1, time.Nanosecond)
	add(minSamples-1, 1e9)
	want("too few to say", 0)
	add(1, 1e9)
	want("enough", 1e9)
	add(3, 1e3)
	want("an engine that was stopped moves nothing", 1e9)
	add(rateSamples, 1.2e9)
	want("what is nearly as before is no news", 1e9)
	add(rateSamples, 1.3e9)
	want("what is not is told", 1.3e9)
	add(rateSamples, 0.9e9)
	want("what is slower, too", 0.9e9)
}

// The rate of reads is measured from a get to its release.
func TestReadSpeed(t *testing.T) {
	tier := serve(t, Config{})
	e := dialTier(t, tier, "m")
	hashes := e.store(1, 300)
	for range minSamples {
		if n := len(e.get(hashes, 0)); n != 300 {
			t.Fatalf("%d pages", n)
		}
		if tier.Stats().ReadSpeed != 0 {
			t.Fatal("a speed is known before a copy has ended")
		}
		e.release()
		e.exists(nil, 0) // a release has no answer: what comes after it has
	}
	s := tier.Stats()
	if s.ReadSpeed <= 0 || tier.Record().Speed != s.ReadSpeed {
		t.Errorf("a speed of %g, and %g is told", s.ReadSpeed, tier.Record().Speed)
	}
}
