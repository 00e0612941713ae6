package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestUsedSetAside: a rank that counts cached pages as used is believed no more, and again when it
// stops.
func TestUsedSetAside(t *testing.T) {
	var l worker.Load
	now := time.Unix(1000, 0)
	report := func(used, running int64) worker.LoadView {
		now = now.Add(500 * time.Millisecond)
		l.Report(now, worker.Report{Running: running, Used: used, Pool: 100_000, Most: 16})
		return l.View(now)
	}
	require.EqualValues(t, 95_000, report(95_000, 0).Used, "one report is no proof")
	for range 10 {
		_ = report(95_000, 0)
	}
	require.Zero(t, report(95_000, 0).Used)
	doubts := l.SetAside()
	require.Len(t, doubts, 1)
	require.Equal(t, worker.AsideUsed, doubts[0].Field)
	require.EqualValues(t, 95_000, doubts[0].Reported)

	lease := l.BeginWork(now, worker.Work{Uncached: 700, Prompt: 5000, Output: 100})
	require.EqualValues(t, 700, report(96_000, 1).Used, "own requests count")
	require.EqualValues(t, 100_000, l.View(now).Pool)
	lease.FirstByteAt(now)
	lease.End()
	require.Zero(t, report(97_000, 1).Used, "a report that is older than the end of a request")

	for range 10 {
		_ = report(0, 0)
	}
	require.Empty(t, l.SetAside())
	other := l.BeginWork(now, worker.Work{Uncached: 700, Prompt: 5000, Output: 100})
	require.EqualValues(t, 5100, report(5100, 1).Used)
	other.End()
}

// TestUsedOfOthers: other routers' requests hold pages too, those that tell of themselves and those
// that do not.
func TestUsedOfOthers(t *testing.T) {
	var l worker.Load
	now := time.Unix(1000, 0)
	for range 20 {
		now = now.Add(500 * time.Millisecond)
		l.Report(now, worker.Report{Running: 9, Used: 95_000, Pool: 100_000})
		require.Empty(t, l.SetAside(), "requests that nobody told of")
	}
	l.ReplacePeer(now, worker.RouterLoad{}, worker.RouterLoad{InFlight: 9, Held: 95_000})
	for range 20 {
		now = now.Add(500 * time.Millisecond)
		l.Report(now, worker.Report{Running: 9, Used: 95_000, Pool: 100_000})
		require.Empty(t, l.SetAside(), "requests that were told of")
	}
	l.ReplacePeer(now, worker.RouterLoad{InFlight: 9, Held: 95_000}, worker.RouterLoad{InFlight: 9, Held: 9000})
	for range 20 {
		now = now.Add(500 * time.Millisecond)
		l.Report(now, worker.Report{Running: 9, Used: 95_000, Pool: 100_000})
	}
	require.Len(t, l.SetAside(), 1, "requests that cannot hold so much")
}

// TestUsedOfGuessedPrompts: an image is more tokens than its URL.
func TestUsedOfGuessedPrompts(t *testing.T) {
	var l worker.Load
	now := time.Unix(1000, 0)
	lease := l.BeginWork(now, worker.Work{Uncached: 50, Prompt: 50, Output: 100, Guessed: true})
	defer lease.End()
	for range 20 {
		now = now.Add(500 * time.Millisecond)
		l.Report(now, worker.Report{Running: 1, Used: 40_000, Pool: 100_000})
		require.Empty(t, l.SetAside())
	}
}

// prompt sends one prompt and lets its first byte come when a rank of that speed has computed it.
func prompt(l *worker.Load, now *time.Time, tokens int, speed float64) {
	lease := l.BeginWork(*now, worker.Work{Uncached: tokens, Prompt: tokens, Output: 10, Exact: true})
	*now = now.Add(time.Duration(float64(tokens)/speed*float64(time.Second)) + 20*time.Millisecond)
	lease.FirstToken(*now)
	lease.FirstByteAt(*now)
	lease.End()
}

// TestSpeedSetAside: counters that run ahead of each other are found out by first bytes, and
// believed again when they show the truth.
func TestSpeedSetAside(t *testing.T) {
	const truth = 16_000.0
	for name, claims := range map[string]float64{"far too fast": 574_000, "too fast": 70_000, "far too slow": 900} {
		var l worker.Load
		now := time.Unix(1000, 0)
		computed, busy := int64(0), 0.0
		run := func(n int, speed float64) {
			for i := range n {
				prompt(&l, &now, 300, truth)
				tokens := 5000 + 500*(i%10)
				prompt(&l, &now, tokens, truth)
				computed, busy = computed+int64(tokens)+300, busy+float64(tokens+300)/speed
				l.Report(now, worker.Report{Pool: 1_000_000, Prefilled: computed, Busy: time.Duration(busy * float64(time.Second))})
			}
		}
		run(40, claims)
		require.InDelta(t, truth, l.View(now).Rate, truth/2, name)
		require.Len(t, l.SetAside(), 1, name)
		require.InDelta(t, claims, l.SetAside()[0].Reported, claims/100)
		require.Equal(t, worker.AsideSpeed, l.SetAside()[0].Field)
		require.InDelta(t, truth, l.OwnSpeed(), truth/2, "what peers are told")

		run(10, truth)
		require.Empty(t, l.SetAside(), "%s: the same process tells the truth", name)
		require.InDelta(t, truth, l.View(now).Rate, 500, name)
		if claims > truth { // a slower span moves the estimate by little
			run(40, claims)
			require.Len(t, l.SetAside(), 1, name)
		}

		l.Forget()
		require.Empty(t, l.SetAside())
		require.Zero(t, l.View(now).Rate)
		computed, busy = 0, 0
		run(40, truth)
		require.InDelta(t, truth, l.View(now).Rate, 100, "%s: a process that tells the truth", name)
		require.Empty(t, l.SetAside(), name)
	}
}

// TestSpeedOfShortPrompts: prompts that are short, fetched, or wait for room show no speed.
func TestSpeedOfShortPrompts(t *testing.T) {
	var l worker.Load
	now := time.Unix(1000, 0)
	send := func(w worker.Work) {
		lease := l.BeginWork(now, w)
		now = now.Add(2 * time.Second)
		lease.FirstToken(now)
		lease.End()
	}
	l.Report(now, worker.Report{Pool: 20_000, Most: 4, Prefilled: 1_000_000, Busy: 10 * time.Second}) // 100,000 a second
	for range 30 {
		send(worker.Work{Uncached: 4000, Prompt: 4000})
		send(worker.Work{Uncached: 5000, Fetched: 100, Prompt: 9000})
		send(worker.Work{Uncached: 9000, Prompt: 30_000}) // larger than the pool
	}
	full := make([]worker.Lease, 4)
	for i := range full {
		full[i] = l.Begin(10)
	}
	for range 30 {
		send(worker.Work{Uncached: 5000, Prompt: 5000}) // the batch is full
	}
	require.Empty(t, l.SetAside())
	require.InDelta(t, 100_000, l.View(now).Rate, 1)
	for i := range full {
		full[i].End()
	}
	for range 30 {
		send(worker.Work{Uncached: 5000, Prompt: 5000})
	}
	require.Len(t, l.SetAside(), 1)
}

// TestSpeedOfPeers: without first bytes a rank may be four times as fast as its peers, and they
// prove it to be more.
func TestSpeedOfPeers(t *testing.T) {
	var l worker.Load
	now := time.Unix(1000, 0)
	l.Report(now, worker.Report{Pool: 1_000_000, Prefilled: 1_000_000, Busy: 10 * time.Second})
	l.SetSimilarSpeed(now, 2000)
	require.InDelta(t, 8000, l.View(now).Rate, 1e-6)
	require.Len(t, l.SetAside(), 1)
	for range 10 {
		prompt(&l, &now, 100, 100_000)
		prompt(&l, &now, 9000, 100_000)
	}
	require.InDelta(t, 100_000, l.View(now).Rate, 1e-6)
	require.Empty(t, l.SetAside())
}

// TestAbsurdReports: numbers that no rank has do no harm.
func TestAbsurdReports(t *testing.T) {
	var l worker.Load
	now := time.Unix(1000, 0)
	const most = 1<<63 - 1
	for range 10 {
		now = now.Add(time.Second)
		l.Report(now, worker.Report{Running: most, Waiting: most, Queued: most, Used: most, Wanted: most, Pool: most, Most: most, Prefilled: most, Busy: most})
		l.Report(now, worker.Report{Running: -most, Waiting: -1, Queued: -most, Used: -most, Pool: -most, Prefilled: -1, Busy: -most})
		v := l.View(now)
		for _, n := range []int64{v.InFlight, v.Waiting, v.Pending, v.Used, v.Pool, v.Most} {
			require.GreaterOrEqual(t, n, int64(0), "%+v", v)
		}
	}
}
