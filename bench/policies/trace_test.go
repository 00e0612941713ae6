package policies_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
	"github.com/warmpath/warmpath/bench/trace"
)

func TestRecorded(t *testing.T) {
	from := []trace.Request{
		{Input: 700, Output: 3, Block: 512, IDs: []uint64{7, 9}, Cached: -1},
		{At: time.Second, Input: 20, Block: 16, IDs: []uint64{1, 2}, Answer: 77, Cached: 5},
	}
	got := policies.Recorded(from)
	assert.Equal(t, []policies.Request{
		{Prompt: []policies.Segment{{ID: 7, Tokens: 512}, {ID: 9, Tokens: 188}}, Output: 3},
		{At: time.Second, Prompt: []policies.Segment{{ID: 1, Tokens: 16}, {ID: 2, Tokens: 4}}, Output: 1, Answer: 77},
	}, got)
	assert.Equal(t, 700, got[0].Input())
	rate, ok := policies.Found(from)
	assert.True(t, ok)
	assert.InDelta(t, 0.25, rate, 1e-9, "of the one request that tells")
	_, ok = policies.Found(from[:1])
	assert.False(t, ok)
}

func TestRecordedFile(t *testing.T) {
	f, err := os.Open("../replay/testdata/mooncake_conversation_200.jsonl")
	require.NoError(t, err)
	defer f.Close()
	got, err := trace.Read(f, 150)
	require.NoError(t, err)
	assert.Len(t, got.Requests, 150)
	// Of 150 requests of one hour hardly any is a second turn; all have the first block.
	assert.InDelta(t, 0.06, policies.Bound(policies.Recorded(got.Requests), 16), 0.03)
}

func TestFamilies(t *testing.T) {
	names, what := policies.Workloads()
	require.Len(t, what, len(names))
	for _, name := range names {
		trace, err := policies.Synthetic(name, 1, 500)
		require.NoError(t, err)
		require.Len(t, trace, 500, name)
		again, err := policies.Synthetic(name, 1, 500)
		require.NoError(t, err)
		assert.Equal(t, trace, again, "%s: the same seed gives the same trace", name)
		other, err := policies.Synthetic(name, 2, 500)
		require.NoError(t, err)
		assert.NotEqual(t, trace, other, name)
		last := time.Duration(0)
		for _, r := range trace {
			require.GreaterOrEqual(t, r.At, last, name)
			require.Positive(t, r.Input())
			require.Positive(t, r.Output)
			last = r.At
		}
		longer, err := policies.Synthetic(name, 1, 2000)
		require.NoError(t, err)
		bound := policies.Bound(longer, 16)
		assert.Greater(t, bound, 0.05, name)
		assert.Less(t, bound, 1.0, name)
	}
	_, err := policies.Synthetic("none", 1, 5)
	require.ErrorIs(t, err, policies.ErrConfig)
	_, err = policies.Synthetic("zipf", 1, 0)
	require.ErrorIs(t, err, policies.ErrConfig)
}
