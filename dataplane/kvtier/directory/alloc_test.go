package directory

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing"
)

func TestStoredDoesNotAllocate(t *testing.T) {
	known := ids(1, 5000)
	x := stocked(t, 80, 100, 16, known)
	dst := make([]routing.TierMatch, 0, 100)
	for _, a := range []routing.TierQuery{
		{Model: "m", Tokens: known},
		{Model: "m", Tokens: known[:3000]},
		{Model: "m", Tokens: ids(2, 5000)},
		{Model: "other", Tokens: known},
		{Model: "m", Tokens: known, LoRA: "a"},
		{Model: "m", Tokens: known, Salt: "tenant"},
		{Model: "m"},
	} {
		if n := testing.AllocsPerRun(100, func() { dst = x.Stored(dst[:0], a) }); n != 0 {
			t.Errorf("%v allocations for %d tokens of %s", n, len(a.Tokens), a.Model)
		}
	}
	if dst = x.Stored(dst[:0], routing.TierQuery{Model: "m", Tokens: known}); len(dst) != 80 {
		t.Errorf("%d tiers of 80 nodes", len(dst))
	}
}
