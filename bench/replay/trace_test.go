package replay_test

import (
	"errors"
	"io"
	"testing"

	"github.com/warmpath/warmpath/bench/replay"
	"github.com/warmpath/warmpath/bench/trace"
)

func TestRecorded(t *testing.T) {
	source := replay.NewRecorded([]trace.Request{{Input: 1}, {Input: 2}})
	for want := 1; want <= 2; want++ {
		if r, err := source.Next(); err != nil || r.Input != want {
			t.Fatalf("Next() = %+v, %v, want the request of %d tokens", r, err, want)
		}
	}
	if _, err := source.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() after the last = %v, want io.EOF", err)
	}
}

func TestSyntheticIsTheSameForASeedAndSharesPrefixes(t *testing.T) {
	const n = 400
	a, b, other := replay.NewSynthetic(1, n), replay.NewSynthetic(1, n), replay.NewSynthetic(2, n)
	seen := map[uint64]bool{}
	blocks, known, differs := 0, 0, false
	for range n {
		r, err := a.Next()
		if err != nil {
			t.Fatal(err)
		}
		same, _ := b.Next()
		different, _ := other.Next()
		if r.At != same.At || r.Input != same.Input || r.Output != same.Output {
			t.Fatalf("the same seed gives %+v and %+v", r, same)
		}
		differs = differs || r.Input != different.Input
		if want := (r.Input + trace.BlockTokens - 1) / trace.BlockTokens; len(r.IDs) != want {
			t.Fatalf("%d blocks for %d tokens, want %d", len(r.IDs), r.Input, want)
		}
		for _, id := range r.IDs {
			blocks++
			if seen[id] {
				known++
			}
			seen[id] = true
		}
	}
	if _, err := a.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next() after %d requests = %v, want io.EOF", n, err)
	}
	if !differs {
		t.Error("two seeds give the same trace")
	}
	if part := float64(known) / float64(blocks); part < 0.5 || part > 0.95 {
		t.Errorf("%.2f of the blocks were seen before: a trace without choices measures no policy", part)
	}
}
