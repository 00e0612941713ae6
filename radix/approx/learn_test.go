package approx_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/radix/approx"
)

// engine is a worker with an LRU cache of that many units: a tree with a known capacity and
// nothing to learn.
type engine struct{ *approx.Tree }

func newEngine(units int) engine {
	tree := approx.New(approx.Config{})
	tree.AddWorker(0, units)
	return engine{tree}
}

// answer prefills chain and returns the number of cached units.
func (e engine) answer(chain []approx.Key) int {
	cached := units(e.Tree, chain)
	e.Insert(0, chain)
	return cached
}

func units(tree *approx.Tree, chain []approx.Key) int {
	for _, o := range tree.Match(nil, chain) {
		return o.Units
	}
	return 0
}

// requests sends n requests by Zipf's law, each with 20 common units and 80 of one of 500
// prompts. It returns the share of believed units that were cached, and of cached units that
// were believed.
func requests(tree *approx.Tree, e engine, r *rand.Rand, n int, correct bool) (precision, recall float64) {
	zipf := rand.NewZipf(r, 1.1, 4, 499)
	var believed, there, both int
	chain := make([]approx.Key, 100)
	for range n {
		id := zipf.Uint64()
		for j := range chain {
			chain[j] = approx.Key(j)
			if j >= 20 {
				chain[j] |= approx.Key(id+1) << 20
			}
		}
		expected, cached := units(tree, chain), e.answer(chain)
		since := tree.Insert(0, chain)
		if correct {
			tree.Correct(0, chain, since, cached)
		}
		believed, there, both = believed+expected, there+cached, both+min(expected, cached)
	}
	return float64(both) / float64(believed), float64(both) / float64(there)
}

func TestLearnsCapacity(t *testing.T) {
	for _, capacity := range []int{1000, 4000, 16_000} {
		r := rand.New(rand.NewPCG(uint64(capacity), 1))
		tree, blind, e := approx.New(approx.Config{}), approx.New(approx.Config{}), newEngine(capacity)
		tree.AddWorker(0, 0)
		blind.AddWorker(0, 0)
		requests(tree, e, r, 5000, true)
		precision, recall := requests(tree, e, r, 5000, true)
		blindly, _ := requests(blind, newEngine(capacity), r, 10_000, false)
		t.Logf("capacity %d: believed %+v, precision %.3f (without corrections %.3f), recall %.3f",
			capacity, tree.Worker(0), precision, blindly, recall)
		assert.InEpsilon(t, capacity, tree.Worker(0).Capacity, 0.25)
		assert.Greater(t, precision, 0.9)
		assert.Greater(t, recall, 0.9)
		assert.Greater(t, precision, blindly)
	}
}

// TestCapacityComesBack teaches a wrong lesson, 200 answers without a cached token: it must not
// last.
func TestCapacityComesBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	tree, e := approx.New(approx.Config{}), newEngine(8000)
	tree.AddWorker(0, 0)
	requests(tree, e, r, 5000, true)
	for range 200 {
		chain := make([]approx.Key, 100)
		e.answer(chain)
		tree.Correct(0, chain, tree.Insert(0, chain), 0)
	}
	low := tree.Worker(0).Capacity
	requests(tree, e, r, 3000, true)
	precision, recall := requests(tree, e, r, 2000, true)
	t.Logf("capacity fell to %d and is %d again; precision %.3f, recall %.3f",
		low, tree.Worker(0).Capacity, precision, recall)
	assert.InEpsilon(t, 8000, tree.Worker(0).Capacity, 0.25)
	assert.Greater(t, recall, 0.9)
}
