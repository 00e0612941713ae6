package approx_test

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/radix/approx"
)

// TestConcurrent has look-ups beside inserts and workers that come and go, all with the same
// first units. A worker without evictions is always found whole.
func TestConcurrent(t *testing.T) {
	tree := approx.New(approx.Config{MaxBytes: 1 << 20})
	const steady, passing = approx.Worker(8), approx.Worker(9)
	workers := []approx.Worker{0, 1, 2, 3, 4, 5, 6, 7}
	for _, w := range append(workers, steady) {
		tree.AddWorker(w, 0)
	}
	text := prompt(nil, 0, 8192, 1024)
	known := tree.AppendText(nil, 0, text)
	var all sync.WaitGroup
	for g := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(g, 1))
			var chain []approx.Key
			for range 2000 {
				chain = tree.AppendText(chain[:0], 0, prompt(nil, r.Uint64N(500), 4096, 1024))
				w := workers[r.IntN(len(workers))]
				switch r.IntN(50) {
				case 0:
					tree.Clear(w)
				case 1:
					tree.AddWorker(w, r.IntN(2000))
				case 2:
					tree.AddWorker(passing, 0)
					tree.RemoveWorker(passing)
				case 3, 4, 5:
					tree.Withdraw(w, chain, tree.Insert(w, chain))
				default:
					tree.Correct(w, chain, tree.Insert(w, chain), r.IntN(len(chain)))
				}
				tree.Insert(steady, known)
			}
		})
	}
	tree.Insert(steady, known)
	for range 2 {
		all.Go(func() {
			var found []approx.Overlap
			for range 4000 {
				found = tree.Match(found[:0], known)
				whole := false
				for _, o := range found {
					whole = whole || o.Worker == steady && o.Units == len(known)
				}
				if !whole {
					t.Errorf("%v lacks worker %d with %d units", found, steady, len(known))
					return
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, tree.Check())
}

// TestClearBesideInserts expects no look-up to find an old holding once Clear has begun, and
// every look-up to find a new one.
func TestClearBesideInserts(t *testing.T) {
	tree := approx.New(approx.Config{})
	const w = approx.Worker(0)
	tree.AddWorker(w, 0)
	var chain []approx.Key
	for i := range uint64(1000) {
		chain = tree.AppendText(chain[:0], 0, prompt(nil, i, 1024, 512))
		tree.Insert(w, chain)
	}
	var all sync.WaitGroup
	all.Go(func() { tree.Clear(w) })
	for i := range uint64(1000) {
		chain := tree.AppendText(nil, 0, prompt(nil, i, 1024, 512))
		if got := tree.Match(nil, chain); len(got) > 1 {
			t.Fatalf("one worker is found twice: %v", got)
		}
	}
	all.Wait()
	require.Empty(t, tree.Match(nil, chain))
	require.NoError(t, tree.Check())
}
