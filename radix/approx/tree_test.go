package approx_test

import (
	"encoding/binary"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/radix/approx"
)

// prompt returns size bytes, of which the first shared are equal for all ids.
func prompt(dst []byte, id uint64, size, shared int) []byte {
	dst = dst[:0]
	for len(dst) < size {
		word := uint64(len(dst)) * 0x9e3779b97f4a7c15
		if len(dst) >= shared {
			word ^= (id + 1) * 0xbf58476d1ce4e5b9
		}
		dst = binary.LittleEndian.AppendUint64(dst, word)
	}
	return dst
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // twice: the first may leave a sweep unfinished
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestCorrect(t *testing.T) {
	ids := func(n int, first approx.Key) []approx.Key {
		keys := make([]approx.Key, n)
		for i := range keys {
			keys[i] = first + approx.Key(i)
		}
		return keys
	}
	a, b, c := ids(100, 1000), ids(100, 2000), ids(100, 3000)
	branch := append(slices.Clone(a[:50]), ids(50, 4000)...)
	answer := func(tree *approx.Tree, chain []approx.Key, actual int) {
		tree.Correct(0, chain, tree.Insert(0, chain), actual)
	}
	fresh := func() *approx.Tree {
		tree := approx.New(approx.Config{})
		tree.AddWorker(0, 0)
		return tree
	}

	t.Run("a branch goes with the part that it hangs on", func(t *testing.T) {
		tree := fresh()
		answer(tree, a, 0)
		answer(tree, branch, 50)
		answer(tree, b, 0)
		answer(tree, a, 20)
		assert.Equal(t, 100, units(tree, a), "it was prefilled again")
		assert.Equal(t, 50, units(tree, branch), "only the common prefix is back")
		assert.Equal(t, 100, units(tree, b), "it was used later than the missing part")
		assert.Equal(t, int64(200), tree.Worker(0).Capacity)
		require.NoError(t, tree.Check())
	})
	t.Run("a burst for one new prompt teaches nothing", func(t *testing.T) {
		tree := fresh()
		first, second := tree.Insert(0, a), tree.Insert(0, a)
		tree.Correct(0, a, first, 0)
		tree.Correct(0, a, second, 0)
		assert.Zero(t, tree.Stats().Contradicted)
	})
	t.Run("two answers that miss the same teach once", func(t *testing.T) {
		tree := fresh()
		answer(tree, a, 0)
		answer(tree, b, 0)
		answer(tree, c, 0)
		first, second := tree.Insert(0, a), tree.Insert(0, a)
		tree.Correct(0, a, first, 0)
		tree.Correct(0, a, second, 0)
		assert.Equal(t, int64(1), tree.Stats().Contradicted)
	})
	t.Run("a flush halves a capacity at most", func(t *testing.T) {
		tree := fresh()
		answer(tree, a, 0)
		for i := range approx.Key(20) {
			answer(tree, ids(100, 10_000+1000*i), 0)
		}
		answer(tree, ids(100, 29_000), 0)
		assert.Equal(t, int64(2100/2), tree.Worker(0).Capacity)
	})
	t.Run("an answer of an earlier process teaches nothing", func(t *testing.T) {
		tree := fresh()
		since := tree.Insert(0, a)
		tree.AddWorker(0, 0)
		tree.Correct(0, a, since, 100)
		assert.Zero(t, units(tree, a))
	})
	t.Run("a count may be off by a page or an eighth", func(t *testing.T) {
		tree := fresh()
		answer(tree, a, 0)
		answer(tree, a, 88)
		assert.Zero(t, tree.Stats().Contradicted)
	})
	t.Run("a surprise raises", func(t *testing.T) {
		tree := fresh()
		answer(tree, a, 0)
		answer(tree, b, 0)
		answer(tree, c, 0)
		answer(tree, a, 0) // b stays, as it was used later; the capacity is 300
		answer(tree, ids(100, 9000), 100)
		assert.Equal(t, int64(325), tree.Worker(0).Capacity)
	})
}

func TestWithdraw(t *testing.T) {
	tree := approx.New(approx.Config{})
	tree.AddWorker(0, 0)
	var long, short []approx.Key
	for i := range approx.Key(60) {
		long = append(long, i+1)
	}
	short = long[:20]
	failed := tree.Insert(0, long)
	tree.Withdraw(0, long, failed)
	assert.Zero(t, units(tree, long), "it never got there")

	tree.Correct(0, short, tree.Insert(0, short), 0)
	failed = tree.Insert(0, long)
	tree.Withdraw(0, long, failed)
	assert.Equal(t, 20, units(tree, long), "older holdings stay")

	failed = tree.Insert(0, long)
	tree.Insert(0, long[:40]) // splits the nodes of the failing one
	tree.Withdraw(0, long, failed)
	assert.Equal(t, 40, units(tree, long), "another request is on its way with this part")

	failed = tree.Insert(0, long)
	tree.Correct(0, long, tree.Insert(0, long), approx.Unreported)
	tree.Withdraw(0, long, failed)
	assert.Equal(t, 60, units(tree, long), "another request has proved it")
	tree.Withdraw(0, long, 0)
	tree.Withdraw(9, long, failed)
	assert.Equal(t, int64(60), tree.Worker(0).Units)
	require.NoError(t, tree.Check())
}

func TestDomains(t *testing.T) {
	tree := approx.New(approx.Config{Seed: 7})
	const w = approx.Worker(0)
	tree.AddWorker(w, 0)
	text := prompt(nil, 1, 1024, 0)
	tokens := make([]uint32, len(text)/4)
	for i := range tokens {
		tokens[i] = binary.LittleEndian.Uint32(text[4*i:])
	}
	tree.Insert(w, tree.AppendText(nil, tree.Domain("m", ""), text))
	assert.NotEmpty(t, tree.Match(nil, tree.AppendText(nil, tree.Domain("m", ""), text)))
	assert.Empty(t, tree.Match(nil, tree.AppendText(nil, tree.Domain("", "m"), text)))
	assert.Empty(t, tree.Match(nil, tree.AppendText(nil, tree.Domain("m"), text)))
	assert.Empty(t, tree.Match(nil, tree.AppendTokens(nil, tree.Domain("m", ""), tokens)))
}

func TestAppend(t *testing.T) {
	tree := approx.New(approx.Config{UnitBytes: 100, UnitTokens: 1, MaxChain: 3})
	text := prompt(nil, 1, 1024, 0)
	assert.Empty(t, tree.AppendText(nil, 0, text[:127]), "100 bytes are rounded up to 128")
	assert.Len(t, tree.AppendText(make([]approx.Key, 1), 0, text), 1+3)
	assert.Empty(t, tree.AppendTokens(nil, 0, make([]uint32, 15)))
	long := tree.AppendText(nil, 0, text[:384])
	assert.Equal(t, long[:2], tree.AppendText(nil, 0, text[:300]), "a prefix has a prefix of the keys")
	for i := range 128 {
		other := slices.Clone(text[:128])
		other[i] ^= 1
		assert.NotEqual(t, long[0], tree.AppendText(nil, 0, other)[0], "byte %d counts", i)
	}
}

func TestUnknownWorkers(t *testing.T) {
	tree := approx.New(approx.Config{})
	chain := []approx.Key{1, 2, 3}
	assert.Zero(t, tree.Insert(5, chain))
	tree.Correct(5, chain, 1, 1)
	tree.Clear(5)
	tree.RemoveWorker(5)
	assert.Zero(t, tree.Worker(5))
	const w = approx.Worker(5)
	tree.AddWorker(w, 0)
	tree.Insert(w, nil)
	assert.Empty(t, tree.Match(nil, nil))
}
