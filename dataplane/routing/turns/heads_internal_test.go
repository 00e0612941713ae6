package turns

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// send sends a prompt and has its answer.
func (t *Table) send(name uint64, prompt []uint64, now int64) Turn {
	prefixes := AppendPrefixes(nil, t, prompt)
	f := t.Find(prefixes, name, false)
	t.Begin(&f, prefixes, now)
	t.End(&f, now)
	return f
}

func random(r *rand.Rand, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = r.Uint64()
	}
	return out
}

// TestUnknownBeginningIsNotLookedUp: a prompt with a first unit of no branch has no mark,
// however long it is. Without marks, each look-up would panic.
func TestUnknownBeginningIsNotLookedUp(t *testing.T) {
	table, r := New(1), rand.New(rand.NewPCG(1, 2))
	known := random(r, 100)
	for now := range int64(3) {
		table.send(0, known, now)
	}
	table.marks = marks{}
	for range 100 {
		prefixes := AppendPrefixes(nil, table, random(r, 1000))
		require.Equal(t, First, table.Find(prefixes, 0, false).Kind)
	}
	require.Panics(t, func() { table.Find(AppendPrefixes(nil, table, known), 0, false) })
}

// TestNewPromptWaitsForNoOther: a prompt of no session takes no lock of one that is there.
func TestNewPromptWaitsForNoOther(t *testing.T) {
	table, r := New(1), rand.New(rand.NewPCG(11, 12))
	table.send(0, random(r, 9), 0)
	mu := &table.branches.locks[0] // of the first session
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, First, table.send(0, random(r, 9), 1).Kind)
}

// TestHeadsAreThoseOfBranches: the counters follow branches that end.
func TestHeadsAreThoseOfBranches(t *testing.T) {
	table, r := New(1), rand.New(rand.NewPCG(3, 4))
	for now := range int64(3 << slotBits) {
		table.send(uint64(r.IntN(3)*r.IntN(1000)), random(r, r.IntN(3)), now)
	}
	want := make([]uint32, len(table.branches.heads))
	for i := range table.branches.all {
		if head := table.branches.all[i].head; head != 0 {
			want[head>>(64-headBits)]++
		}
	}
	got := make([]uint32, len(want))
	unknown := 0
	for i := range got {
		if got[i] = table.branches.heads[i].Load(); got[i] == 0 {
			unknown++
		}
	}
	require.True(t, slices.Equal(want, got))
	require.Greater(t, unknown, len(got)*3/4, "of prompts that no branch begins like")
}

// TestHeadsChangeNoTurn compares with a table to which all beginnings are known.
func TestHeadsChangeNoTurn(t *testing.T) {
	table, other, r := New(1), New(1), rand.New(rand.NewPCG(5, 6))
	for i := range other.branches.heads {
		other.branches.heads[i].Store(1)
	}
	prompts := [][]uint64{random(r, 40), nil}
	var open []Turn // pairs of both tables
	for now := range int64(20_000) {
		p := prompts[r.IntN(len(prompts))]
		if r.IntN(3) == 0 {
			p = p[:r.IntN(len(p)+1)]
		}
		p = slices.Concat(p, random(r, r.IntN(10)))
		name := uint64(max(r.IntN(40)-30, 0))
		answer := r.IntN(10) == 0
		prefixes := AppendPrefixes(nil, table, p)
		a, b := table.Find(prefixes, name, answer), other.Find(prefixes, name, answer)
		require.Equal(t, b, a, "step %d", now)
		table.Begin(&a, prefixes, now)
		other.Begin(&b, prefixes, now)
		require.Equal(t, b, a, "step %d", now)
		if open = append(open, a, b); len(open) > 8 || r.IntN(2) == 0 {
			table.End(&open[0], now)
			other.End(&open[1], now)
			open = open[2:]
		}
		if prompts = append(prompts, p); len(prompts) > 200 {
			prompts = slices.Delete(prompts, 0, 1+r.IntN(3))
		}
	}
}

// TestTagsHideNoMark compares look-ups with the slots themselves.
func TestTagsHideNoMark(t *testing.T) {
	x, r := newMarks(1<<10), rand.New(rand.NewPCG(7, 8))
	hashes := random(r, 5000)
	for i := range 100_000 {
		x.put(hashes[r.IntN(len(hashes))], mark(i+1), func(ID) bool { return r.IntN(4) == 0 })
	}
	for _, hash := range hashes {
		want := mark(0)
		for i := range x.set(hash) {
			s := &x.set(hash)[i]
			if m := s.mark.Load(); m != 0 && s.mixed.Load() == hash^m {
				want = mark(m)
			}
		}
		require.Equal(t, want, x.get(hash))
	}
}

// TestSessionMarkComesLate compares with a table that marks each session with its first prompt.
func TestSessionMarkComesLate(t *testing.T) {
	table, other, r := New(1), New(1), rand.New(rand.NewPCG(9, 10))
	prompts := [][]uint64{random(r, 40)}
	kinds := map[Kind]int{}
	var open []Turn                                    // pairs of both tables
	for now := range min(20_000, int64(markSlots/4)) { // more would replace marks, not the same ones in both
		p := prompts[r.IntN(len(prompts))]
		if r.IntN(2) == 0 {
			p = p[:r.IntN(len(p)+1)]
		}
		p = slices.Concat(p, random(r, r.IntN(10)))
		name := uint64(max(r.IntN(40)-30, 0))
		prefixes := AppendPrefixes(nil, table, p)
		a, b := table.Find(prefixes, name, false), other.Find(prefixes, name, false)
		table.Begin(&a, prefixes, now)
		other.Begin(&b, prefixes, now)
		if b.Kind == First {
			other.marks.put(other.nameHash(b.Session), markOf(b.ID, 1), other.branches.ended)
		}
		require.Equal(t, b, a, "step %d", now)
		kinds[a.Kind]++
		if open = append(open, a, b); len(open) > 8 || r.IntN(2) == 0 {
			table.End(&open[0], now)
			other.End(&open[1], now)
			open = open[2:]
		}
		if prompts = append(prompts, p); len(prompts) > 200 {
			prompts = slices.Delete(prompts, 0, 1+r.IntN(3))
		}
	}
	require.Greater(t, kinds[First], 100)
	require.Greater(t, kinds[Branch], 100)
	require.Zero(t, table.marks.get(table.nameHash(table.send(0, random(r, 9), 20_000).Session)))
}
