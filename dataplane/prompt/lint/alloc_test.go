package lint_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/prompt/lint"
)

func TestOfferDoesNotAllocateWhatItDoesNotTake(t *testing.T) {
	s, body := lint.NewSampler(0), make([]byte, 1000)
	if n := testing.AllocsPerRun(1000, func() { s.Offer(body) }); n != 0 {
		t.Errorf("Offer allocates %v times, want 0", n)
	}
}
