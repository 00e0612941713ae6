package worker_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestLease(t *testing.T) {
	tests := []struct {
		name                       string
		tokens                     int
		steps                      string // b: first byte, e: end
		inFlight, waiting, pending int64
	}{
		{"dispatched", 100, "", 1, 1, 100},
		{"first byte", 100, "b", 1, 0, 0},
		{"ended", 100, "be", 0, 0, 0},
		{"ended without an answer", 100, "e", 0, 0, 0},
		{"every step twice", 100, "bbee", 0, 0, 0},
		{"first byte after the end", 100, "eb", 0, 0, 0},
		{"all cached", 0, "", 1, 1, 0},
		{"more cached than there is", -5, "", 1, 1, 0},
		{"more cached than there is, ended", -5, "be", 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var load worker.Load
			lease := load.Begin(tt.tokens)
			for _, step := range tt.steps {
				apply(&lease, step)
			}
			require.Equal(t, []int64{tt.inFlight, tt.waiting, tt.pending},
				[]int64{load.InFlight(), load.Waiting(), load.Pending()}, "in flight, waiting, pending after %q", tt.steps)
		})
	}
}

func apply(lease *worker.Lease, step rune) {
	if step == 'b' {
		lease.FirstByte()
		return
	}
	lease.End()
}

func TestLeaseOfNothing(t *testing.T) {
	var lease worker.Lease // a request that was never dispatched
	lease.FirstByte()
	lease.End()
	require.Equal(t, worker.Lease{}, lease, "a lease of nothing must stay one")
}

// TestDecodeLease: a decode leg is a request in flight with nothing to prefill, and keeps room
// until it has ended.
func TestDecodeLease(t *testing.T) {
	var load worker.Load
	now := time.Now()
	first, second := load.BeginLeg(1000, worker.Work{Prompt: 1000}), load.BeginLeg(-5, worker.Work{Prompt: -5})
	v := load.View(now)
	require.Equal(t, []int64{2, 2, 0, 1000, 1000}, []int64{v.InFlight, v.Waiting, v.Pending, v.Used, v.Reserved})
	first.FirstByte()
	v = load.View(now)
	require.Equal(t, []int64{2, 1, 0, 1000, 1000}, []int64{v.InFlight, v.Waiting, v.Pending, v.Used, v.Reserved})

	// The rank's report is better on its own requests; requests that it cannot have seen are
	// added.
	load.Report(now, worker.Report{Running: 1, Waiting: 1, Used: 700, Wanted: 1200, Pool: 10_000, Most: 16})
	third := load.BeginLeg(300, worker.Work{Prompt: 300})
	v = load.View(now)
	require.Equal(t, []int64{3, 1500, 1300, 10_000, 16}, []int64{v.InFlight, v.Used, v.Reserved, v.Pool, v.Most})
	first.End()
	second.End()
	v = load.View(now)
	require.Equal(t, []int64{1, 500, 300}, []int64{v.InFlight, v.Used, v.Reserved})
	third.End()
	third.End()
	require.Equal(t, []int64{0, 0, 0, 0}, []int64{load.InFlight(), load.Waiting(), load.Pending(), load.Reserved()})
}

// TestLeaseNeverLeaks runs random requests, each taking its steps in a random
// order and any number of times, beside a plain count of them.
func TestLeaseNeverLeaks(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		type request struct {
			lease        worker.Lease
			tokens       int64 // to prefill
			kept         int64 // reserved
			begun, ended bool
		}
		var load worker.Load
		requests := make([]*request, 0, 200)
		for range 200 {
			if rng.IntN(3) == 0 || len(requests) == 0 {
				n := rng.IntN(1000)
				if rng.IntN(2) == 0 {
					requests = append(requests, &request{lease: load.BeginLeg(n, worker.Work{Prompt: n}), kept: int64(n)})
				} else {
					requests = append(requests, &request{lease: load.Begin(n), tokens: int64(n)})
				}
			} else {
				r := requests[rng.IntN(len(requests))]
				step := 'b'
				if rng.IntN(2) == 0 {
					step = 'e'
					r.ended = true
				}
				r.begun = true
				apply(&r.lease, step)
			}
			var inFlight, waiting, pending, kept int64
			for _, r := range requests {
				if !r.ended {
					inFlight, kept = inFlight+1, kept+r.kept
				}
				if !r.begun {
					waiting, pending = waiting+1, pending+r.tokens
				}
			}
			require.Equal(t, []int64{inFlight, waiting, pending, kept}, []int64{load.InFlight(), load.Waiting(), load.Pending(), load.Reserved()},
				"seed %d: in flight, waiting, pending, reserved", seed)
		}
	}
}

func TestLoadIsCountedFromManyGoroutines(t *testing.T) {
	var load worker.Load
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 2))
			for range 1000 {
				lease := [...]func(int) worker.Lease{load.Begin, func(n int) worker.Lease { return load.BeginLeg(n, worker.Work{Prompt: n}) }}[rng.IntN(2)](rng.IntN(100))
				if rng.IntN(2) == 0 {
					lease.FirstByte()
				}
				lease.End()
			}
		})
	}
	wg.Wait()
	require.Equal(t, []int64{0, 0, 0, 0}, []int64{load.InFlight(), load.Waiting(), load.Pending(), load.Reserved()}, "load after all have ended")
}

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

// A decode rank lets a request wait where it is full and goes on, and nobody is served before it.
func TestQueues(t *testing.T) {
	full := worker.Report{Running: 8, Waiting: 1, Most: 8}
	for _, tt := range []struct {
		name      string
		meanwhile func(l *worker.Load, prefilled time.Time)
		want      bool
	}{
		{"nothing is known", func(*worker.Load, time.Time) {}, false},
		{"another answer goes on", func(l *worker.Load, _ time.Time) { l.Worked() }, true},
		{"full by its report", func(l *worker.Load, _ time.Time) { l.Report(time.Now(), full) }, true},
		{"room by its report", func(l *worker.Load, _ time.Time) {
			l.Worked()
			l.Report(time.Now(), worker.Report{Running: 7, Most: 8})
		}, false},
		{"full, frozen since", func(l *worker.Load, _ time.Time) {
			l.Report(time.Now().Add(-2*time.Second), full)
		}, false},
		{"full, without reports since", func(l *worker.Load, _ time.Time) {
			l.Report(time.Now().Add(-2*time.Second), full)
			l.Worked()
		}, true},
		{"a place is taken before it", func(l *worker.Load, prefilled time.Time) {
			l.Report(time.Now(), full)
			l.BegunPair(prefilled.Add(time.Minute).UnixNano())
		}, false},
		{"one of its time has begun", func(l *worker.Load, prefilled time.Time) {
			l.Report(time.Now(), full)
			l.BegunPair(prefilled.Add(time.Second).UnixNano())
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				var l worker.Load
				prefilled := time.Now()
				look := l.Look(prefilled)
				time.Sleep(time.Second)
				tt.meanwhile(&l, prefilled)
				require.Equal(t, tt.want, l.Queues(time.Now(), look, prefilled, 30*time.Second))
				next := l.Look(time.Now())
				time.Sleep(time.Second)
				require.False(t, l.Queues(time.Now(), next, prefilled, 30*time.Second), "nothing has come since the next look")
			})
		})
	}
}

// A worker whose probes time out while its answers go on does not hang, and is found to once they
// stop.
func TestBusyIsNoHang(t *testing.T) {
	watch(t, nil, func(b *bench) {
		b.after(0)
		var left atomic.Bool
		b.worker.Await(func(bool) bool { left.Store(true); return true })
		b.fake.set(hanging)
		for range 100 {
			b.after(300 * time.Millisecond)
			b.worker.Ranks()[0].Load.Worked()
		}
		b.want(worker.Slow, "up")
		require.False(t, left.Load(), "the request has left a worker that works")
		b.after(20 * time.Second)
		require.True(t, left.Load(), "the request waits for a worker that hangs")
	})
}

// TestColdSpeed: a rank that has computed little counts as fast as its peers, the less the more it
// has computed, and never slower than it says itself.
func TestColdSpeed(t *testing.T) {
	now := time.Unix(1e6, 0)
	var l worker.Load
	rate := func() float64 { return l.View(now).Rate }
	assert.Zero(t, rate(), "nobody knows a speed")
	l.SetSimilarSpeed(now, 16_000)
	assert.EqualValues(t, 16_000, rate(), "its own is not known")
	l.Report(now, worker.Report{})
	l.Report(now, worker.Report{Prefilled: 8_192, Busy: 8_192 * time.Second / 6_400})
	assert.InEpsilon(t, 2/(1/6_400.+1/16_000.), rate(), 0.01, "half of the tokens that prove a speed")
	l.Report(now, worker.Report{Prefilled: 16_384, Busy: 16_384 * time.Second / 6_400})
	assert.InEpsilon(t, 6_400, rate(), 0.01, "proved")
	l.SetSimilarSpeed(now, 3_000)
	assert.InEpsilon(t, 6_400, rate(), 0.01, "faster ones need no proof")
	assert.InEpsilon(t, 6_400, l.OwnSpeed(), 0.01)
}
