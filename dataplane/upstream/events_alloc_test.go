//go:build !race

package upstream

import "testing"

func TestEventsDoNotAllocate(t *testing.T) {
	v := events{on: true}
	whole, half, rest := []byte("data: {\"text\":\"x\"}\n\n"), []byte("data: {\"te"), []byte("xt\":\"x\"}\n\n")
	v.pass(half)
	v.pass(rest)
	if n := testing.AllocsPerRun(100, func() { v.pass(whole); v.pass(half); v.pass(rest) }); n != 0 {
		t.Errorf("events allocate %v times, want 0", n)
	}
}

func BenchmarkEvents(b *testing.B) {
	v := events{on: true}
	whole := []byte("data: {\"text\":\"x\"}\n\n")
	for b.Loop() {
		v.pass(whole)
	}
}
