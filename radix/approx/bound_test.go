//go:build !race || soak

package approx_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/radix/approx"
)

// TestUniquePromptsStayWithinTheBound inserts unique prompts of 64 KiB: the bound holds after
// each, and the heap agrees with the count.
func TestUniquePromptsStayWithinTheBound(t *testing.T) {
	const bound, prompts = uniqueBound, uniqueBound / 839 // 64 KiB of text each, 5 times the bound
	before := heap()
	tree := approx.New(approx.Config{MaxBytes: bound})
	workers := make([]approx.Worker, 64)
	for i := range workers {
		workers[i] = approx.Worker(i)
		tree.AddWorker(workers[i], 0)
	}
	var text []byte
	var chain []approx.Key
	for i := range uint64(prompts) {
		text = prompt(text, i, 64<<10, 0)
		chain = tree.AppendText(chain[:0], 0, text)
		w := workers[i%64]
		tree.Correct(w, chain, tree.Insert(w, chain), 0)
		if s := tree.Stats(); s.Bytes > bound {
			t.Fatalf("%d bytes after %d prompts exceed the bound of %d", s.Bytes, i, bound)
		}
	}
	require.NoError(t, tree.Check())
	s, grown := tree.Stats(), heap()-before
	t.Logf("%d bytes counted, heap grew by %d; %+v", s.Bytes, grown, s)
	assert.Greater(t, s.Bytes, int64(bound-bound/64-8<<10), "the budget is used, but for the part for spares")
	assert.InEpsilon(t, s.Bytes, grown, 0.1, "the heap equals the count")
	for _, w := range workers {
		tree.Clear(w)
	}
	assert.Zero(t, tree.Stats().Holds)
	assert.Less(t, heap()-before, int64(2<<20), "cleared memory goes back")
	runtime.KeepAlive(tree)
}

// TestSharedPromptsStayWithinTheBound inserts short prompts with common system prompts: holders
// fill the bound.
func TestSharedPromptsStayWithinTheBound(t *testing.T) {
	const bound = 4 << 20
	before := heap()
	tree := approx.New(approx.Config{MaxBytes: bound})
	workers := make([]approx.Worker, 64)
	for i := range workers {
		workers[i] = approx.Worker(i)
		tree.AddWorker(workers[i], 0)
	}
	var chain []approx.Key
	for i := range uint64(60_000) {
		chain = tree.AppendText(chain[:0], 0, prompt(nil, i%30_000/3, 2048, 1024+int(i%5)*128))
		tree.Insert(workers[i*7%64], chain)
	}
	require.NoError(t, tree.Check())
	s, grown := tree.Stats(), heap()-before
	t.Logf("%d bytes counted, heap grew by %d; %+v", s.Bytes, grown, s)
	assert.Positive(t, s.EvictedMemory)
	assert.InEpsilon(t, s.Bytes, grown, 0.1, "the heap equals the count")
	runtime.KeepAlive(tree)
}

// TestHistories runs random histories under bounds from a few nodes to all; together they must
// use every rule.
func TestHistories(t *testing.T) {
	var sum approx.Stats
	for seed := range uint64(histories) {
		s := replay(t, 500<<(seed%8), randomHistory(seed, 1200))
		sum.EvictedMemory += s.EvictedMemory
		sum.EvictedCapacity += s.EvictedCapacity
		sum.EvictedStale += s.EvictedStale
		sum.Contradicted += s.Contradicted
		sum.Surprised += s.Surprised
		sum.Withdrawn += s.Withdrawn
	}
	if sum.EvictedMemory == 0 || sum.EvictedCapacity == 0 || sum.EvictedStale == 0 || sum.Contradicted == 0 ||
		sum.Surprised == 0 || sum.Withdrawn == 0 {
		t.Errorf("histories missed a rule: %+v", sum)
	}
}
