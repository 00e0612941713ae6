package worker_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

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
