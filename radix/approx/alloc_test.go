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
		w := approx.Worker(i)
		tree.AddWorker(w, 0)
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

// TestNewPromptsDoNotAllocate inserts unknown prompts of several lengths, for which others are
// evicted, by the memory bound and by the workers' capacity.
func TestNewPromptsDoNotAllocate(t *testing.T) {
	for _, capacity := range []int{0, 4096} {
		tree := approx.New(approx.Config{MaxBytes: 4 << 20})
		workers := []approx.Worker{0, 1, 2, 3}
		for _, w := range workers {
			tree.AddWorker(w, capacity)
		}
		var chain []approx.Key
		id := approx.Key(0)
		request := func() {
			id++
			chain = chain[:0]
			for i := range 100 + id%4*60 {
				chain = append(chain, id<<20|i)
			}
			w := workers[id%4]
			tree.Correct(w, chain, tree.Insert(w, chain), 0)
		}
		for range 20_000 {
			request()
		}
		if n := testing.AllocsPerRun(1000, request); n != 0 {
			t.Errorf("capacity %d: a new prompt allocates %v times, want 0", capacity, n)
		}
		if err := tree.Check(); err != nil {
			t.Error(err)
		}
		if s := tree.Stats(); s.EvictedMemory+s.EvictedCapacity == 0 {
			t.Errorf("stats %+v, want evictions", s)
		}
	}
}
