package sim

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Faults makes a worker fail on demand. Its methods may be called from any
// goroutine while the worker runs; what they set outlives a restart, except a
// hang, which ends with the process that hung.
type Faults struct {
	drops    atomic.Int64  // event batches still to be dropped
	lost     atomic.Bool   // dropped batches cannot be replayed either
	failures atomic.Int64  // requests still to be answered with 500
	factor   atomic.Uint64 // float64 bits of the slowdown, 0 for none

	mu      sync.Mutex
	gate    chan struct{} // non-nil and open while the worker hangs
	orders  chan order    // to Worker.Run
	pending *time.Timer   // ends a fault that was given a time
}

// order is what Worker.Run is told to do with the life of the engine.
type order struct {
	crash bool
	back  time.Duration // restart after this long; negative: not until told
}

// eventFate is what happens to one batch of events.
type eventFate uint8

const (
	eventSent   eventFate = iota
	eventUnsent           // not sent, but in the replay buffer: a full queue
	eventLost             // nowhere: it only leaves a gap in the sequence
)

func newFaults() *Faults { return &Faults{orders: make(chan order, 16)} }

// DropEvents makes the next n batches of events vanish on their way. They can be
// asked for by replay unless lost is set.
func (f *Faults) DropEvents(n int, lost bool) {
	f.lost.Store(lost)
	f.drops.Store(int64(n))
}

// Fail answers the next n generation requests with status 500.
func (f *Faults) Fail(n int) { f.failures.Store(int64(n)) }

// Slow makes everything take factor times as long; 1 ends it.
func (f *Faults) Slow(factor float64) { f.factor.Store(math.Float64bits(factor)) }

// Hang stops the worker: connections are accepted and nothing is answered, by
// any endpoint; no token and no event is sent until [Faults.Unhang].
func (f *Faults) Hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gate == nil {
		f.gate = make(chan struct{})
	}
}

// Unhang lets a hanging worker go on where it stood.
func (f *Faults) Unhang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gate != nil {
		close(f.gate)
		f.gate = nil
	}
}

// Crash ends the worker as a killed process ends: listeners closed, every
// connection reset, cache and queue gone. It stays away until [Faults.Restart].
func (f *Faults) Crash() { f.order(order{crash: true, back: -1}) }

// Restart crashes a running worker, and brings it back on the same ports with an
// empty cache, its events counted from 0, after it was away for down.
func (f *Faults) Restart(down time.Duration) { f.order(order{crash: true, back: max(0, down)}) }

// order hands o to Worker.Run. A worker that is told more than it can follow
// is told in vain: the queue is of no use beyond the last few.
func (f *Faults) order(o order) {
	select {
	case f.orders <- o:
	default:
	}
}

// later calls end after d, instead of what was to be called before.
func (f *Faults) later(d time.Duration, end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopLocked()
	if d > 0 {
		f.pending = time.AfterFunc(d, end)
	}
}

// stop forgets what later was given.
func (f *Faults) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopLocked()
}

func (f *Faults) stopLocked() {
	if f.pending != nil {
		f.pending.Stop()
		f.pending = nil
	}
}

// pass returns true at once if the worker does not hang, else when it goes on;
// false when ctx ended first.
func (f *Faults) pass(ctx context.Context) bool {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	if gate == nil {
		return true
	}
	select {
	case <-gate:
		return true
	case <-ctx.Done():
		return false
	}
}

// hangs says whether the worker hangs now.
func (f *Faults) hangs() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gate != nil
}

// eventFate decides on one batch.
func (f *Faults) eventFate() eventFate {
	if !take(&f.drops) {
		return eventSent
	}
	if f.lost.Load() {
		return eventLost
	}
	return eventUnsent
}

// fails says whether this request is one to fail.
func (f *Faults) fails() bool { return take(&f.failures) }

// take counts n down and says whether there was anything left.
func take(n *atomic.Int64) bool {
	for {
		v := n.Load()
		if v <= 0 {
			return false
		}
		if n.CompareAndSwap(v, v-1) {
			return true
		}
	}
}

func (f *Faults) slowdown() float64 {
	if b := f.factor.Load(); b != 0 {
		return math.Float64frombits(b)
	}
	return 1
}

// Fault is a fault as POST /sim/fault names it.
type Fault struct {
	Kind    string  // see [Faults.Apply]
	Count   int     // of batches or requests; default 1
	Seconds float64 // how long: of a hang or slowness 0 means until told, of a restart the time away
	Factor  float64 // of slowness; default 4
	Lost    bool    // dropped events cannot be replayed
}

// Apply does what a fault's kind says: "drop-events", "hang", "unhang", "crash",
// "restart", "slow", "error-5xx" or "none", which ends all that can be ended.
func (f *Faults) Apply(x Fault) error {
	n, d := max(1, x.Count), time.Duration(x.Seconds*float64(time.Second))
	switch x.Kind {
	case "drop-events":
		f.DropEvents(n, x.Lost)
	case "error-5xx":
		f.Fail(n)
	case "hang":
		f.Hang()
		f.later(d, f.Unhang)
	case "unhang":
		f.Unhang()
	case "crash":
		if f.Crash(); d > 0 {
			f.later(d, func() { f.Restart(0) })
		}
	case "restart":
		f.Restart(d)
	case "slow":
		f.slow(x.Factor, d)
	case "none":
		f.DropEvents(0, false)
		f.Fail(0)
		f.Slow(1)
		f.Unhang()
	default:
		return fmt.Errorf("cannot apply fault %q: %w", x.Kind, ErrFault)
	}
	return nil
}

func (f *Faults) slow(factor float64, d time.Duration) {
	if factor <= 0 {
		factor = 4
	}
	f.Slow(factor)
	f.later(d, func() { f.Slow(1) })
}
