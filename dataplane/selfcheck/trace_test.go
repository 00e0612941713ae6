package selfcheck

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// windowOf makes a window of entries with prompts of numbered blocks.
func windowOf(t *testing.T, entries ...accesslog.Entry) *window {
	t.Helper()
	h := newHistory(1000, 1<<20, time.Hour)
	for i := range entries {
		e := &entries[i]
		e.Block, e.Model, e.Streamed, e.Status = block, "m", true, 200
		if e.Took == 0 {
			e.Took = time.Second
		}
		h.add(e)
	}
	w, why := h.window(1000, 0)
	require.Empty(t, why)
	return w
}

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func ids(from, n int) (all []uint64) {
	for i := range n {
		all = append(all, uint64(from+i))
	}
	return all
}

func free() error { return nil }

func tokens(all []policies.Segment) (n int) {
	for _, s := range all {
		n += s.Tokens
	}
	return n
}

// shared is the number of leading tokens that two sequences of segments have in common.
func shared(a, b []policies.Segment) (n int) {
	for i := range min(len(a), len(b)) {
		if a[i].ID != b[i].ID {
			return n
		}
		n += min(a[i].Tokens, b[i].Tokens)
		if a[i].Tokens != b[i].Tokens {
			return n
		}
	}
	return n
}

// TestAnswersAreFound: the second turn of a session has the answer of the first one where its hits
// show that the answer was in the cache, and else not.
func TestAnswersAreFound(t *testing.T) {
	// 100 tokens of prompt, 4 of them in its last block, and 40 of answer; then 200 tokens.
	first := accesslog.Entry{Arrived: at(0), Input: 100, Output: 40, IDs: append(ids(1, 6), 99), Cached: 0}
	second := accesslog.Entry{Arrived: at(5), Input: 200, Output: 10, IDs: append(ids(1, 12), 98), Cached: 128}
	for cached, want := range map[int]int{128: 140, 96: 96} {
		second.Cached = cached
		w := windowOf(t, first, second)
		tr, err := newTrace(w, 1, 1000, time.Millisecond, free)
		require.NoError(t, err)
		require.Len(t, tr.requests, 2)
		a, b := tr.requests[tr.own[0]], tr.requests[tr.own[1]]
		require.Equal(t, 100, a.Input())
		require.Equal(t, 200, b.Input())
		whole := slices.Concat(a.Prompt, []policies.Segment{{ID: a.Answer, Tokens: a.Output}})
		require.Equal(t, want, shared(whole, b.Prompt), "cached %d", cached)
		require.Equal(t, 5*time.Second, b.At-a.At)
	}
}

// TestEarlierPrompts: prompts that were cached before the window are brought into the caches, once,
// the last one needed first.
func TestEarlierPrompts(t *testing.T) {
	w := windowOf(t,
		accesslog.Entry{Arrived: at(0), Input: 321, Output: 10, IDs: append(ids(1, 20), 9), Cached: 160},
		accesslog.Entry{Arrived: at(1), Input: 337, Output: 10, IDs: append(ids(1, 21), 8), Cached: 320}, // by the one before
		accesslog.Entry{Arrived: at(2), Input: 321, Output: 10, IDs: append(ids(100, 20), 9), Cached: 320},
		accesslog.Entry{Arrived: at(3), Input: 321, Output: 10, IDs: append(ids(200, 20), 9), Cached: 0},
	)
	tr, err := newTrace(w, 1, 1000, time.Millisecond, free)
	require.NoError(t, err)
	require.Len(t, tr.requests, 6)
	require.Equal(t, 320, tr.requests[0].Input())
	require.Equal(t, 320, shared(tr.requests[0].Prompt, tr.requests[tr.own[2]].Prompt))
	require.Equal(t, 160, tr.requests[1].Input())
	require.Equal(t, 160, shared(tr.requests[1].Prompt, tr.requests[tr.own[0]].Prompt))
	for i, own := range tr.own {
		require.Equal(t, i+2, own)
	}
}

// TestOtherRouters: each other router has the same traffic, of other sessions, out of step.
func TestOtherRouters(t *testing.T) {
	w := windowOf(t,
		accesslog.Entry{Arrived: at(0), Input: 160, Output: 10, IDs: ids(1, 10), Cached: 0},
		accesslog.Entry{Arrived: at(1), Input: 320, Output: 10, IDs: ids(1, 20), Cached: 160},
		accesslog.Entry{Arrived: at(8), Input: 100, Output: 10, Cached: -1},
		accesslog.Entry{Arrived: at(9), Input: 480, Output: 0, IDs: ids(1, 30), Cached: 320, TTFT: time.Second, Took: 3 * time.Second},
	)
	tr, err := newTrace(w, 3, 1000, 20*time.Millisecond, free)
	require.NoError(t, err)
	n := len(w.requests)
	require.Equal(t, 4, n)
	require.Len(t, tr.requests, 3*n)
	own := map[int]bool{}
	for _, i := range tr.own {
		own[i] = true
	}
	for i := range tr.requests {
		require.GreaterOrEqual(t, tr.requests[i].At, tr.requests[max(i-1, 0)].At)
		for k := range tr.requests {
			if own[i] != own[k] {
				require.Zero(t, shared(tr.requests[i].Prompt, tr.requests[k].Prompt))
			}
		}
	}
	require.Equal(t, 160, shared(tr.requests[tr.own[0]].Prompt, tr.requests[tr.own[1]].Prompt))
	require.Equal(t, 101, tr.requests[tr.own[3]].Output, "by its time")
	require.Equal(t, 100, tokens(tr.requests[tr.own[2]].Prompt), "a prompt of unknown tokens")
}
