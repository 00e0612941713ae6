package selfcheck

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// idsOf restores the blocks of a path.
func (h *history) idsOf(end int32) (ids []uint64) {
	for _, run := range h.path(end) {
		ids = append(ids, h.nodes[run.node].ids...)
	}
	return ids
}

// branching makes prompts that share beginnings of random lengths.
func branching(rng *rand.Rand, before [][]uint64, most int) []uint64 {
	var ids []uint64
	if len(before) > 0 && rng.IntN(4) > 0 {
		other := before[rng.IntN(len(before))]
		ids = slices.Clone(other[:rng.IntN(len(other)+1)])
	}
	for range rng.IntN(most) {
		ids = append(ids, rng.Uint64N(3)) // equal blocks at many places
	}
	return ids
}

// TestHistoryIsAList: each remembered prompt is the one that was added, whatever shares its
// beginning, comes and goes; and nothing is left behind the last one.
func TestHistoryIsAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	h := newHistory(50, 1<<20, time.Hour)
	var all [][]uint64
	for i := range 3000 {
		ids := branching(rng, all, 40)
		all = append(all, ids)
		h.add(&accesslog.Entry{Arrived: start.Add(time.Duration(i)), Input: 16*len(ids) + 1, Block: 16, IDs: ids, Model: []string{"a", "b"}[rng.IntN(2)], Cached: -1})
		all = all[max(len(all)-50, 0):]
		require.Equal(t, len(all), h.n)
		for k := range all {
			require.Equal(t, len(all[k]) > 0, h.at(k).known)
			require.True(t, slices.Equal(all[k], h.idsOf(h.at(k).end)), "request %d of %d", k, i)
		}
	}
	h.clear()
	require.Zero(t, h.bytes)
	require.Empty(t, h.edges)
	require.Empty(t, h.roots)
	require.Len(t, h.free, len(h.nodes))
}

// TestHistoryIsBounded: a million requests take no more memory than the bound, and old ones go.
func TestHistoryIsBounded(t *testing.T) {
	const bound = 1 << 20
	h := newHistory(16384, bound, time.Minute)
	ids, rng := make([]uint64, 6), rand.New(rand.NewPCG(3, 4))
	most := 0
	for i := range 1_000_000 {
		for k := rng.IntN(len(ids)); k < len(ids); k++ {
			ids[k] = rng.Uint64()
		}
		h.add(&accesslog.Entry{Arrived: start.Add(time.Duration(i) * time.Millisecond), Input: 96, Block: 16, IDs: ids, Model: "m"})
		most = max(most, h.bytes)
	}
	require.LessOrEqual(t, most, bound)
	require.Greater(t, most, bound*9/10, "the bound is used")
	require.Less(t, len(h.nodes), 2*16384+2)
	h.add(&accesslog.Entry{Arrived: start.Add(time.Hour), Input: 96, Block: 16, IDs: ids, Model: "m"})
	require.Equal(t, 1, h.n, "requests older than the bound")

	huge := make([]uint64, bound/8) // a prompt larger than the bound
	h.add(&accesslog.Entry{Arrived: start.Add(time.Hour), Input: len(huge) * 16, Block: 16, IDs: huge, Model: "m"})
	require.Zero(t, h.n)
	require.Zero(t, h.bytes)
}

// TestRecorderDoesNotWait: entries are dropped and counted while nobody takes them.
func TestRecorderDoesNotWait(t *testing.T) {
	r := newRecorder(newHistory(10, 1<<20, time.Hour))
	require.Nil(t, r.Begin(), "off")
	r.on.Store(true)
	for range 2 * maxPending {
		if e := r.Begin(); e != nil {
			*e = accesslog.Entry{Status: 200, Input: 16, Block: 16, Took: 1, IDs: append(e.IDs, 1)}
			r.Commit(e)
		}
	}
	require.EqualValues(t, maxPending, r.dropped.Load())
	for range maxPending {
		r.take(<-r.full)
	}
	n, bytes := r.size()
	require.Equal(t, 10, n)
	require.Positive(t, bytes)
	e := r.Begin()
	require.NotNil(t, e)
	*e = accesslog.Entry{Status: 503, Input: 16, Block: 16, Took: 1}
	r.take(e)
	n, _ = r.size()
	require.Equal(t, 10, n, "refused requests are no traffic")
}

// TestAbsurdNumbers: tokens that no model has would wrap around, or keep the simulator busy.
func TestAbsurdNumbers(t *testing.T) {
	r := newRecorder(newHistory(10, 1<<20, time.Hour))
	r.on.Store(true)
	for _, tokens := range [][2]int{{1 << 40, 1}, {1, 1 << 40}, {1, -1}, {-1, 1}, {100, 10}} {
		e := r.Begin()
		e.Arrived, e.Took, e.Status, e.Model, e.Block = time.Now(), time.Second, answered, "m", 16
		e.Input, e.Output, e.Cached = tokens[0], tokens[1], 1<<40
		r.take(e)
	}
	require.Equal(t, 1, r.history.n)
	require.Equal(t, int32(100), r.history.at(0).cached)
}
