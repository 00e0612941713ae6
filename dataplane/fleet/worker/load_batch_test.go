package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestBatch: prompts of one moment are one batch, and the rank has it until their first tokens.
func TestBatch(t *testing.T) {
	const speed, chunk = 10_000, 8192
	start := time.Unix(1000, 0)
	var l worker.Load
	computing := func(after time.Duration) bool {
		v := l.View(start.Add(after))
		return v.Batch.Computing(v.Rate, chunk)
	}
	begin := func(after time.Duration, tokens int, stream bool) worker.Lease {
		return l.BeginWork(start.Add(after), worker.Work{Uncached: tokens, Prompt: tokens, Streams: stream})
	}
	unknown := begin(0, 5000, true)
	require.False(t, computing(time.Second), "nothing is known of its speed")
	unknown.End()
	l.Report(start, worker.Report{Running: 1, Prefilled: 100_000, Busy: 10 * time.Second})
	require.InDelta(t, speed, l.View(start).Rate, 1)
	require.False(t, computing(0), "it has nothing")

	first := begin(0, 5000, true)
	require.False(t, computing(10*time.Millisecond), "there is room in its batch")
	require.True(t, computing(50*time.Millisecond), "the batch has begun")
	second := begin(10*time.Millisecond, 5000, true)
	require.True(t, computing(11*time.Millisecond), "the batch is full")
	first.FirstByteAt(start.Add(500 * time.Millisecond))
	require.True(t, computing(510*time.Millisecond))
	second.FirstByteAt(start.Add(900 * time.Millisecond))
	require.False(t, computing(900*time.Millisecond), "all have their first tokens")

	long := begin(time.Second, 5000, true)
	require.True(t, computing(2*time.Second), "it is late")
	require.False(t, computing(10*time.Second), "no first token of a silent stream says anything")
	long.End()

	begin(10*time.Second, 5000, false)
	require.True(t, computing(10*time.Second+500*time.Millisecond))
	require.False(t, computing(11*time.Second), "the first byte of an answer in one piece comes at its end")

	begin(20*time.Second, 50_000, false)
	l.Report(start.Add(20*time.Second+50*time.Millisecond), worker.Report{Running: 2, Prefilled: 100_000, Busy: 10 * time.Second})
	require.True(t, computing(21*time.Second), "the report may not know of it")
	l.Report(start.Add(22*time.Second), worker.Report{Running: 3, Prefilled: 100_000, Busy: 10 * time.Second})
	require.False(t, computing(22*time.Second), "it was cached")
}
