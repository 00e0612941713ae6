package worker_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// TestDecodeLease: a decode leg is a request in flight with nothing to prefill, and keeps room until it has ended.
func TestDecodeLease(t *testing.T) {
	var load worker.Load
	now := time.Now()
	first, second := load.BeginDecode(1000), load.BeginDecode(-5)
	v := load.View(now)
	require.Equal(t, []int64{2, 2, 0, 1000, 1000}, []int64{v.InFlight, v.Waiting, v.Pending, v.Used, v.Reserved})
	first.FirstByte()
	v = load.View(now)
	require.Equal(t, []int64{2, 1, 0, 1000, 1000}, []int64{v.InFlight, v.Waiting, v.Pending, v.Used, v.Reserved})

	// What the rank says of those that it has is better known there; what it cannot know yet is added.
	load.Report(now, worker.Report{Running: 1, Waiting: 1, Used: 700, Wanted: 1200, Pool: 10_000, Most: 16})
	third := load.BeginDecode(300)
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
					requests = append(requests, &request{lease: load.BeginDecode(n), kept: int64(n)})
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
				lease := [...]func(int) worker.Lease{load.Begin, load.BeginDecode}[rng.IntN(2)](rng.IntN(100))
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
