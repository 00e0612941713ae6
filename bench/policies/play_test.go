package policies_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/bench/policies"
)

// turns are sessions that take turns, each prompt the whole of the session's one before.
func turns(sessions, each int) (all []policies.Request) {
	for n := range each {
		for s := range sessions {
			r := policies.Request{At: time.Duration(len(all)) * 300 * time.Millisecond, Output: 20 + s}
			for k := range n + 1 {
				r.Prompt = append(r.Prompt, policies.Segment{ID: uint64(1000*s + k + 1), Tokens: 700})
			}
			all = append(all, r)
		}
	}
	return all
}

// TestPlay: the answers of a play add up to the result of Simulate, for several policies and
// settings on one Player.
func TestPlay(t *testing.T) {
	trace, cfg := turns(12, 10), policies.Config{Workers: 3, CacheTokens: 60_000}
	steps := 0
	p, err := policies.NewPlayer(trace, cfg, func() error { steps++; return nil })
	require.NoError(t, err)
	require.GreaterOrEqual(t, steps, len(trace))
	for _, name := range []string{"kv", "round-robin", "kv"} {
		for _, pool := range []int{60_000, 20_000} {
			cfg.CacheTokens = pool
			want := only(t, trace, cfg, name)
			got, err := p.Play(t.Context(), name, func(c *policies.Config) { c.CacheTokens = pool })
			require.NoError(t, err)
			require.Len(t, got, len(trace))
			var ttft, latency time.Duration
			var cached int64
			for _, o := range got {
				ttft, latency, cached = ttft+o.TTFT, latency+o.Latency, cached+int64(o.Cached)
			}
			require.InDelta(t, want.TTFT.Mean, ttft/time.Duration(len(got)), 1)
			require.InDelta(t, want.Latency.Mean, latency/time.Duration(len(got)), 1)
			require.Equal(t, want.HitTokens, cached)
		}
	}
}

// TestPlayEnds: the error of pace ends preparation and play at the next step.
func TestPlayEnds(t *testing.T) {
	enough, left := errors.New("enough"), 7
	pace := func() error {
		if left--; left < 0 {
			return enough
		}
		return nil
	}
	_, err := policies.NewPlayer(turns(3, 3), policies.Config{}, pace)
	require.ErrorIs(t, err, enough)
	left = 1000
	p, err := policies.NewPlayer(turns(3, 3), policies.Config{}, pace)
	require.NoError(t, err)
	left = 5
	_, err = p.Play(t.Context(), "kv", nil)
	require.ErrorIs(t, err, enough)
	require.Equal(t, -1, left)

	late := turns(2, 1)
	late[0].At = time.Hour
	_, err = policies.NewPlayer(late, policies.Config{}, nil)
	require.ErrorIs(t, err, policies.ErrConfig)
	_, err = policies.NewPlayer(nil, policies.Config{}, nil)
	require.Error(t, err)
}
