package policies

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseFault(t *testing.T) {
	for text, want := range map[string]Fault{
		"2@60s:0.5":       {Worker: 2, At: time.Minute, Speed: 0.5},
		"0@0s:0":          {},
		"3@1m30s:0.25:5m": {Worker: 3, At: 90 * time.Second, Speed: 0.25, For: 5 * time.Minute},
	} {
		got, err := ParseFault(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
		again, err := ParseFault(got.String())
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for _, text := range []string{"", "2", "2@60s", "x@60s:0.5", "2@x:0.5", "2@60s:x", "2@60s:0.5:x", "2@60s:0.5:-1s", "2@60s:0.5:1s:1s"} {
		_, err := ParseFault(text)
		require.ErrorIs(t, err, ErrConfig, text)
	}
	for _, f := range []Fault{{Worker: 8}, {Worker: -1}, {Speed: 1}, {Speed: -0.5}, {Speed: 0.001}, {At: -1}, {For: -1}} {
		_, err := Simulate(t.Context(), "", tiny(1, 5), Config{GPUFaults: GPUFaults{Faults: []Fault{f}}}, []string{"kv"}, nil)
		require.ErrorIs(t, err, ErrConfig, "%v", f)
	}
	_, err := Simulate(t.Context(), "", tiny(1, 5), Config{GPUFaults: GPUFaults{Faults: []Fault{{}}}, Pools: Pools{Prefill: 1}}, []string{"kv"}, nil)
	require.ErrorIs(t, err, ErrConfig)
}

// faulty simulates a policy with faults on a made trace.
func faulty(t *testing.T, name string, ablate []string, faults ...Fault) *run {
	t.Helper()
	trace, err := Synthetic("conversations", 3, 3000)
	require.NoError(t, err)
	cfg := Config{Workers: 4, Ablate: ablate, GPUFaults: GPUFaults{Faults: faults}}.withDefaults()
	require.NoError(t, cfg.check())
	s, err := simulate(context.Background(), newPlan(trace, cfg.PageSize, cfg.Rate, false), cfg, name, func(int) {})
	require.NoError(t, err)
	return s
}

// With any policy, no request goes to a worker that is known to be dead, none is answered there
// after its death, and each is answered or counted as lost.
func TestDeathLosesOnlyWhatHadBegun(t *testing.T) {
	died := 100 * time.Second
	for _, name := range Names() {
		s := faulty(t, name, nil, Fault{Worker: 1, At: died})
		at, r := s.jobs[0].at+ticks(died), s.result()
		assert.Equal(t, len(s.jobs), r.Requests+r.Refused, name)
		assert.Equal(t, r.Refused, r.Lost, name)
		assert.Less(t, r.Lost, 64+1, "%s: at most a batch", name)
		for i := range s.tasks {
			if task := &s.tasks[i]; task.worker == 1 {
				require.LessOrEqual(t, task.ended, at, "%s: answered by a dead worker", name)
			}
		}
	}
}

// The facts about a GPU are worth something: with them the requests that a dead or a slow
// worker would have kept waiting are elsewhere.
func TestHealthIsWorthSomething(t *testing.T) {
	slow := Fault{Worker: 1, At: 60 * time.Second, Speed: 0.1, For: 200 * time.Second}
	dead := Fault{Worker: 1, At: 60 * time.Second}
	for _, f := range []Fault{slow, dead} {
		with, without := faulty(t, "kv", nil, f).result(), faulty(t, "kv", []string{"health"}, f).result()
		t.Logf("%v: mean %v and %v without, p99 %v and %v", f, with.TTFT.Mean, without.TTFT.Mean, with.TTFT.P99, without.TTFT.P99)
		assert.Less(t, with.TTFT.Mean, without.TTFT.Mean, "%v", f)
		assert.LessOrEqual(t, with.TTFT.P99, without.TTFT.P99, "%v", f)
	}
	none := faulty(t, "kv", nil).result()
	again := faulty(t, "kv", []string{"health"}).result()
	assert.Equal(t, none.TTFT, again.TTFT, "without a fault there is nothing to know")
}

// A worker that is well again gets its requests back.
func TestFaultsEnd(t *testing.T) {
	s := faulty(t, "kv", nil, Fault{Worker: 1, At: 60 * time.Second, Speed: 0.05, For: 60 * time.Second})
	from, to := s.jobs[0].at+62*second, s.jobs[0].at+119*second
	during, after, all := 0, 0, [2]int{}
	for i := range s.tasks {
		task := &s.tasks[i]
		switch {
		case task.sent > from && task.sent < to:
			all[0]++
			if task.worker == 1 {
				during++
			}
		case task.sent > to+5*second:
			all[1]++
			if task.worker == 1 {
				after++
			}
		}
	}
	share := func(n, all int) float64 { return ratio(float64(n), float64(all)) }
	assert.Less(t, share(during, all[0]), 0.1)
	assert.Greater(t, share(after, all[1]), 0.15)
}
