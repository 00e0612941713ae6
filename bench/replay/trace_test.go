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
