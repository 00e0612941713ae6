//go:build !race

package approx_test

import (
	"testing"

	"github.com/warmpath/warmpath/radix/approx"
)

func TestMatchDoesNotAllocate(t *testing.T) {
	tree := approx.New(approx.Config{})
	text := prompt(nil, 1, 8192, 0)
	tokens := make([]uint32, 2048)
	chain := make([]approx.Key, 0, 1024)
	for i := range 64 {
		w := tree.AddWorker()
		tree.Insert(w, tree.AppendText(nil, tree.Domain("m"), text[:128*(1+i)]))
	}
	found := make([]approx.Overlap, 0, 64)
	n := testing.AllocsPerRun(100, func() {
		chain = tree.AppendTokens(chain[:0], tree.Domain("m"), tokens)
		chain = tree.AppendText(chain[:0], tree.Domain("m"), text)
		found = tree.Match(found[:0], chain)
	})
	if n != 0 || len(found) != 64 {
		t.Errorf("Match allocates %v times for %d workers, want 0 for 64", n, len(found))
	}
}
