package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestPoolSetAside: a pool that events contradict is set aside, and its size taken from them.
func TestPoolSetAside(t *testing.T) {
	const truth = 60_000
	for name, told := range map[string]int64{"too small": 30_000, "too large": 200_000} {
		var l worker.Load
		now := time.Unix(1000, 0)
		step := func(pool, resident int64, evicting bool) {
			now = now.Add(300 * time.Millisecond)
			l.Report(now, worker.Report{Running: 1, Used: 4000, Pool: pool, Most: 16})
			l.CachedPages(now, worker.PoolContent{Tokens: resident, Evicting: evicting})
		}
		lease := l.BeginWork(now, worker.Work{Uncached: 4000, Prompt: 5000, Output: 100})
		for range 20 {
			step(truth, truth-5000, true)
		}
		require.Empty(t, l.SetAside(), "%s: an honest rank", name)
		step(told, truth-5000, true)
		require.Equal(t, told, l.View(now).Pool, "%s: one report is no proof", name)
		for range 20 {
			step(told, truth-5000, true)
		}
		require.Len(t, l.SetAside(), 1, name)
		require.Equal(t, worker.AsidePool, l.SetAside()[0].Field)
		require.InDelta(t, told, l.SetAside()[0].Reported, 1)
		require.InDelta(t, truth, l.View(now).Pool, truth/10, name)
		require.EqualValues(t, 1, l.TimesAside()[worker.AsidePool])
		for range 20 {
			step(truth, truth-5000, true)
		}
		require.Empty(t, l.SetAside(), "%s: it tells the truth", name)
		require.EqualValues(t, truth, l.View(now).Pool)
		lease.End()
		for range 20 {
			step(told, truth-5000, true)
		}
		require.NotEmpty(t, l.SetAside())
		l.Forget()
		require.Empty(t, l.SetAside(), "%s: another process", name)
	}
}

// TestPoolByFalseEvents: what events told of the pool goes with them when they are set aside.
func TestPoolByFalseEvents(t *testing.T) {
	const pool = 100_000
	var r worker.Rank
	r.SetExact(true)
	now := time.Unix(1000, 0)
	for range 20 {
		now = now.Add(300 * time.Millisecond)
		r.Load.Report(now, worker.Report{Running: 1, Pool: pool, Most: 16})
		r.Load.CachedPages(now, worker.PoolContent{Tokens: 1600, Evicting: true})
	}
	require.Less(t, r.Load.View(now).Pool, int64(pool/10))
	for range 20 {
		r.CompareEvents(now, worker.EventClaim{Cached: 1000, Page: 16, Pool: pool})
	}
	require.Equal(t, worker.EventsTellLess, r.Events.Fault())
	require.EqualValues(t, pool, r.Load.View(now).Pool)
	require.Empty(t, r.Load.SetAside())
}
