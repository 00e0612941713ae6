package mock

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// naive is the cache as a list of pages in the order of their last use.
type naive struct {
	page, room int
	all        []naivePage // oldest use first
}

type naivePage struct{ ids []uint32 } // all from the prompt's beginning

func (n *naive) find(ids []uint32) int {
	return slices.IndexFunc(n.all, func(p naivePage) bool { return slices.Equal(p.ids, ids) })
}

// whole is how many whole pages of ids are there.
func (n *naive) whole(ids []uint32) int {
	for i := range len(ids) / n.page {
		if n.find(ids[:(i+1)*n.page]) < 0 {
			return i
		}
	}
	return len(ids) / n.page
}

// TestCacheAgainstNaive holds what the cache says of prompts and of its changes to sets of pages.
func TestCacheAgainstNaive(t *testing.T) {
	const pageSize, pages = 4, 24
	for seed := range uint64(5) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newCache(pageSize, pages)
		there := map[uint64]bool{} // by name, from the changes alone
		n := &naive{page: pageSize, room: pages}
		for range 60 {
			ids := make([]uint32, 1+r.IntN(60))
			for i := range ids {
				ids[i] = uint32(r.IntN(2)) // so that prompts share beginnings
			}
			prompt := 1 + r.IntN(len(ids))
			want := min(n.whole(ids), (prompt-1)/pageSize) * pageSize
			cached, first, parent := c.use(ids, prompt)
			require.Equal(t, want, cached)
			require.Equal(t, n.whole(ids), first, "pages that were there")
			_, linked := c.name(parent)
			require.Equal(t, first > 0, linked)
			for _, k := range c.removed {
				require.True(t, there[k], "a removed page was there")
				delete(there, k)
			}
			for _, k := range c.stored {
				require.False(t, there[k], "a stored page was not there")
				there[k] = true
			}
			require.LessOrEqual(t, len(there), pages)
			require.Len(t, c.byKey, len(there))
			n.all = n.all[:0]
			for k := range there { // what the changes say, as pages
				n.all = append(n.all, naivePage{content(t, c, k, ids, n)})
			}
			// A prompt's own pages are there now, as far as there is room for them.
			require.GreaterOrEqual(t, n.whole(ids), min(len(ids)/pageSize, pages))
		}
		c.clear()
		cached, _, _ := c.use([]uint32{0, 0, 0, 0, 0}, 5)
		require.Zero(t, cached)
	}
}

// known are the ids of each page that was ever stored, by name.
var known = map[uint64][]uint32{}

// content returns the ids from the beginning to page k.
func content(t *testing.T, c *cache, k uint64, ids []uint32, _ *naive) []uint32 {
	t.Helper()
	h := uint64(0)
	for i := range len(ids) / c.page {
		h = key(h, ids[i*c.page:(i+1)*c.page])
		known[h] = slices.Clone(ids[:(i+1)*c.page])
	}
	require.Contains(t, known, k)
	return known[k]
}

// TestEvictionTakesLeavesFirst holds that a page is there only if the one before it is, whatever happens.
func TestEvictionTakesLeavesFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := newCache(2, 50)
	for range 300 {
		ids := make([]uint32, 2+r.IntN(40))
		for i := range ids {
			ids[i] = uint32(r.IntN(3))
		}
		c.use(ids, len(ids))
		kids := map[int32]int32{}
		for _, slot := range c.byKey {
			if p := c.pages[slot].parent; p != none {
				kids[p]++
				require.Equal(t, p, c.byKey[c.pages[p].key], "the page before is there")
			}
		}
		leaves := 0
		for _, slot := range c.byKey {
			require.Equal(t, kids[slot], c.pages[slot].kids)
			if kids[slot] == 0 {
				leaves++
			}
		}
		listed := 0
		for slot := c.root.next; slot != none; slot = c.pages[slot].next {
			listed++
		}
		require.Equal(t, leaves, listed, "leaves are listed")
		require.Len(t, c.free, len(c.pages)-len(c.byKey))
	}
}

// TestOldestGoesFirst has one prompt kept by use while others come and go.
func TestOldestGoesFirst(t *testing.T) {
	c := newCache(1, 10)
	c.use([]uint32{1, 1, 1, 1}, 4)
	for i := range uint32(20) {
		cached, _, _ := c.use([]uint32{1, 1, 1, 1, 100}, 5)
		if i > 0 {
			require.Equal(t, 4, cached)
		}
		cached, _, _ = c.use([]uint32{2 + i, 1, 1}, 3)
		require.Zero(t, cached)
	}
	require.Len(t, c.byKey, 10)
}

func BenchmarkUse(b *testing.B) {
	c := newCache(16, DefaultPages)
	ids := make([]uint32, 16<<10)
	b.ReportAllocs()
	n := uint32(0)
	for b.Loop() {
		n++
		for i := range ids {
			ids[i] = n + uint32(i)
		}
		c.use(ids, len(ids))
	}
}
