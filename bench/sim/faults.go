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
	drops    atomic.Int64             // event batches still to be dropped
	lost     atomic.Bool              // dropped batches cannot be replayed either
	requests [faultKinds]atomic.Int64 // requests still to fail, by how
	status   atomic.Int64             // with which status, 0 for 500
	spare    atomic.Int64             // of so many requests only one fails, 0 for all of them
	turn     atomic.Int64             // of them
	factor   atomic.Uint64            // float64 bits of the slowdown, 0 for none
	stalls   atomic.Int64             // transfers that never end
	deaths   deaths
	link     atomic.Uint64 // float64 bits of the slowdown of transfers, 0 for none
	busy     atomic.Uint64 // float64 bits: by how much the counter of prefill time runs behind, 0 for not
	hoards   atomic.Bool   // load reports count cached pages as used

	strangers atomic.Int64 // see [Worker.Strangers]

	silent        atomic.Bool // replays are not answered
	bootstrapDown atomic.Bool // the bootstrap server resets connections
	bootstrapBusy atomic.Bool // GET /route says 503

	timers faultTimers

	mu     sync.Mutex
	gate   chan struct{} // non-nil and open while the worker hangs
	orders chan order    // to Worker.Run
}

// requestFault is how one request fails.
type requestFault int

const (
	failStatus    requestFault = iota // status 500
	failReset                         // connection reset, nothing begun
	failStall                         // no answer, until it is aborted
	failEvent                         // status 200 and an error event; 500 where no stream was asked for
	failResetLate                     // connection reset behind the first token
	failEventLate                     // an error event behind the first token; 500 without a stream
	failEmpty                         // status 200 and no body
	failJSON                          // status 200 and a document that is an error
	faultKinds
	failNot requestFault = -1
)

// late says whether a fault comes behind the first token.
func (f requestFault) late() bool { return f == failResetLate || f == failEventLate }

// order is what Worker.Run is told to do with the life of the engine.
type order struct {
	crash bool
	back  time.Duration // restart after this long; negative: not until told
	model string        // that the next process serves; empty: the same
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

// SilenceReplays leaves requests for a replay without an answer while on.
func (f *Faults) SilenceReplays(on bool) { f.silent.Store(on) }

// Fail answers the next n generation requests with status 500.
func (f *Faults) Fail(n int) { f.requests[failStatus].Store(int64(n)) }

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

// Replace kills the worker and at once starts another process on the same ports, which serves another model.
func (f *Faults) Replace(model string) { f.order(order{crash: true, model: model}) }

// order hands o to Worker.Run. A worker that is told more than it can follow
// is told in vain: the queue is of no use beyond the last few.
func (f *Faults) order(o order) {
	select {
	case f.orders <- o:
	default:
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

// Pending is how many requests and transfers are still to fail.
func (f *Faults) Pending() (n int) {
	for i := range f.requests {
		n += int(f.requests[i].Load())
	}
	return n + int(f.stalls.Load())
}

// next says how this request fails.
func (f *Faults) next() requestFault {
	if n := f.spare.Load(); n > 1 && f.Pending() > 0 && f.turn.Add(1)%n != 0 {
		return failNot
	}
	for i := range f.requests {
		if take(&f.requests[i]) {
			return requestFault(i)
		}
	}
	return failNot
}

// stallsTransfer says whether this transfer is one that never ends.
func (f *Faults) stallsTransfer() bool { return take(&f.stalls) }

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

func (f *Faults) slowdown() float64         { return factorOf(&f.factor) }
func (f *Faults) transferSlowdown() float64 { return factorOf(&f.link) }
func (f *Faults) busyBehind() float64       { return factorOf(&f.busy) }

func factorOf(bits *atomic.Uint64) float64 {
	if b := bits.Load(); b != 0 {
		return math.Float64frombits(b)
	}
	return 1
}

// Fault is a fault as POST /sim/fault names it.
type Fault struct {
	Kind    string  // see [Faults.Apply]
	Count   int     // of batches or requests; default 1
	Seconds float64 // how long: of a hang or slowness 0 means until told, of a restart the time away
	Factor  float64 // of slowness, and of the counter that runs behind; default 4
	Lost    bool    // dropped events cannot be replayed
	Status  int     // of "error" and of error events; default 500
	Every   int     // of so many requests one fails; default all of them
}

// requestFaults are the faults of single requests by the name of their kind.
func requestFaults() map[string]requestFault {
	return map[string]requestFault{
		"error": failStatus, "error-5xx": failStatus, "empty": failEmpty, "error-json": failJSON, "reset": failReset, "stall": failStall, "error-event": failEvent,
		"reset-late": failResetLate, "error-event-late": failEventLate,
	}
}

// Apply does what a fault's kind says. Of the whole worker: "drop-events", "replay-silent" for a time, "hang",
// "unhang", "crash", "restart", "slow". Of the next Count requests: "error" with Status,
// "error-5xx" (the same), "empty" and "error-json" (status 200 without an answer in it),
// "reset", "stall", "error-event", "reset-late", "error-event-late" (late is behind the
// first token). Of a prefill worker: "bootstrap-down" and "bootstrap-503" for a time,
// "stall-transfer" for the next Count, "slow-transfer". Of load reports: "cached-as-used"
// counts cached pages as used, "busy-runs-behind" adds a Factor-th of each prefill's time.
// "none" ends all that can be ended.
func (f *Faults) Apply(x Fault) error {
	n, d := max(1, x.Count), time.Duration(x.Seconds*float64(time.Second))
	if kind, ok := requestFaults()[x.Kind]; ok {
		f.status.Store(int64(x.Status))
		f.spare.Store(int64(x.Every))
		f.requests[kind].Store(int64(n))
		return nil
	}
	switch x.Kind {
	case "drop-events":
		f.DropEvents(n, x.Lost)
	case "replay-silent":
		f.silent.Store(true)
		f.timers.start("replay-silent", d, func() { f.silent.Store(false) })
	case "hang":
		f.Hang()
		f.timers.start("hang", d, f.Unhang)
	case "unhang":
		f.Unhang()
	case "crash":
		if f.Crash(); d > 0 {
			f.timers.start("crash", d, func() { f.Restart(0) })
		}
	case "restart":
		f.Restart(d)
	case "slow":
		f.slow("slow", &f.factor, x.Factor, d)
	case "slow-transfer":
		f.slow("slow-transfer", &f.link, x.Factor, d)
	case "stall-transfer":
		f.stalls.Store(int64(n))
	case "cached-as-used":
		f.hoards.Store(true)
		f.timers.start("cached-as-used", d, func() { f.hoards.Store(false) })
	case "busy-runs-behind":
		f.slow("busy-runs-behind", &f.busy, x.Factor, d)
	case "bootstrap-down":
		f.bootstrapDown.Store(true)
		f.timers.start("bootstrap-down", d, func() { f.bootstrapDown.Store(false) })
	case "bootstrap-503":
		f.bootstrapBusy.Store(true)
		f.timers.start("bootstrap-503", d, func() { f.bootstrapBusy.Store(false) })
	case "none":
		f.none()
	default:
		return fmt.Errorf("cannot apply fault %q: %w", x.Kind, ErrFault)
	}
	return nil
}

// none ends every fault. Requests that are stalled stay so: they are somebody's to abort.
func (f *Faults) none() {
	f.DropEvents(0, false)
	for i := range f.requests {
		f.requests[i].Store(0)
	}
	f.status.Store(0)
	f.spare.Store(0)
	f.stalls.Store(0)
	f.silent.Store(false)
	f.Slow(1)
	f.link.Store(0)
	f.busy.Store(0)
	f.hoards.Store(false)
	f.bootstrapDown.Store(false)
	f.bootstrapBusy.Store(false)
	f.Unhang()
}

func (f *Faults) slow(kind string, bits *atomic.Uint64, factor float64, d time.Duration) {
	if factor <= 0 {
		factor = 4
	}
	bits.Store(math.Float64bits(factor))
	f.timers.start(kind, d, func() { bits.Store(0) })
}
