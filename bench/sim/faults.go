package sim

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Faults makes a worker fail on demand. Its methods may be called from any goroutine while the
// worker runs. Faults outlive a restart, except a hang, which ends with its process.
type Faults struct {
	drops        atomic.Int64             // Event batches still to be dropped.
	lost         atomic.Bool              // Dropped batches cannot be replayed either.
	requests     [faultKinds]atomic.Int64 // Requests still to fail, by kind.
	status       atomic.Int64             // Status of failed requests, 0 for 500.
	oneIn        atomic.Int64             // Only one of this many requests fails; 0 for all.
	requestCount atomic.Int64             // Requests counted for oneIn.
	factor       atomic.Uint64            // Float64 bits of the slowdown, 0 for none.
	stalls       atomic.Int64             // Transfers that never end.
	link         atomic.Uint64            // Float64 bits of the slowdown of transfers, 0 for none.
	reportFaults

	wrongModel atomic.Int64 // See [Worker.WrongModelRequests].

	silent        atomic.Bool // Replays are not answered.
	bootstrapDown atomic.Bool // The bootstrap server resets connections.
	bootstrapBusy atomic.Bool // GET /route returns 503.

	timers faultTimers

	mu      sync.Mutex
	hanging chan struct{} // Open while the worker hangs, nil otherwise.
	orders  chan order    // To Worker.Run.
}

// reportFaults are faults of load reports.
type reportFaults struct {
	// Float64 bits: factor by which the prefill time counter lags, 0 for none.
	busy         atomic.Uint64
	pool         atomic.Uint64 // Float64 bits: reported pool over the real one, 0 for 1.
	cachedAsUsed atomic.Bool   // Reports count cached pages as used.
}

func (f *reportFaults) busyBehind() float64 { return factorOf(&f.busy) }

// poolFactor is the reported pool over the real one.
func (f *reportFaults) poolFactor() float64 { return factorOf(&f.pool) }

// none ends the faults.
func (f *reportFaults) none() {
	f.busy.Store(0)
	f.pool.Store(0)
	f.cachedAsUsed.Store(false)
}

// requestFault is the failure of one request.
type requestFault int

const (
	failStatus    requestFault = iota // status 500
	failReset                         // connection reset before the answer
	failStall                         // no answer until the request is aborted
	failEvent                         // status 200 and an error event; 500 without a stream
	failResetLate                     // connection reset after the first token
	failEventLate                     // an error event after the first token; 500 without a stream
	failEmpty                         // status 200 and no body
	failJSON                          // status 200 and an error document
	faultKinds
	noFault requestFault = -1
)

// late reports whether a fault follows the first token.
func (f requestFault) late() bool { return f == failResetLate || f == failEventLate }

// order tells Worker.Run to end the engine.
type order struct {
	crash bool
	back  time.Duration // Restart after this time; negative: on the next order.
	model string        // Model of the next process; empty: the same.
}

// eventFate is the delivery of one event batch.
type eventFate uint8

const (
	eventSent   eventFate = iota
	eventUnsent           // In the replay buffer alone, as after a full queue.
	eventLost             // Not sent and not stored: a gap in the sequence numbers.
)

func newFaults() *Faults { return &Faults{orders: make(chan order, 16)} }

// DropEvents drops the next n event batches. They can be replayed unless lost is set.
func (f *Faults) DropEvents(n int, lost bool) {
	f.lost.Store(lost)
	f.drops.Store(int64(n))
}

// Fail answers the next n generation requests with status 500.
func (f *Faults) Fail(n int) { f.requests[failStatus].Store(int64(n)) }

// Slow multiplies all service times by factor; 1 ends it.
func (f *Faults) Slow(factor float64) { f.factor.Store(math.Float64bits(factor)) }

// Hang stops the worker: it accepts connections and answers none, at any endpoint, and sends no
// token and no event until [Faults.Unhang].
func (f *Faults) Hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hanging == nil {
		f.hanging = make(chan struct{})
	}
}

// Unhang resumes a hanging worker.
func (f *Faults) Unhang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hanging != nil {
		close(f.hanging)
		f.hanging = nil
	}
}

// Crash ends the worker like SIGKILL: listeners closed, all connections reset, cache and queue
// gone, until [Faults.Restart].
func (f *Faults) Crash() { f.order(order{crash: true, back: -1}) }

// Restart crashes a running worker and starts it after down on the same ports, with an empty
// cache and events numbered from 0.
func (f *Faults) Restart(down time.Duration) { f.order(order{crash: true, back: max(0, down)}) }

// Replace crashes the worker and at once starts a process with another model on the same ports.
func (f *Faults) Replace(model string) { f.order(order{crash: true, model: model}) }

// order queues o for Worker.Run, and drops it if the queue is full.
func (f *Faults) order(o order) {
	select {
	case f.orders <- o:
	default:
	}
}

// awaitUnhang returns true as soon as the worker does not hang, or false when ctx ends first.
func (f *Faults) awaitUnhang(ctx context.Context) bool {
	f.mu.Lock()
	gate := f.hanging
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

// hangs reports whether the worker hangs now.
func (f *Faults) hangs() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hanging != nil
}

// eventFate decides on one event batch.
func (f *Faults) eventFate() eventFate {
	if !take(&f.drops) {
		return eventSent
	}
	if f.lost.Load() {
		return eventLost
	}
	return eventUnsent
}

// Pending returns the number of requests and transfers still to fail.
func (f *Faults) Pending() (n int) {
	for i := range f.requests {
		n += int(f.requests[i].Load())
	}
	return n + int(f.stalls.Load())
}

// nextRequestFault returns the failure of the next request.
func (f *Faults) nextRequestFault() requestFault {
	if n := f.oneIn.Load(); n > 1 && f.Pending() > 0 && f.requestCount.Add(1)%n != 0 {
		return noFault
	}
	for i := range f.requests {
		if take(&f.requests[i]) {
			return requestFault(i)
		}
	}
	return noFault
}

// stallsTransfer reports whether the next transfer never ends.
func (f *Faults) stallsTransfer() bool { return take(&f.stalls) }

// take decrements n and reports whether it was positive.
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

func factorOf(bits *atomic.Uint64) float64 {
	if b := bits.Load(); b != 0 {
		return math.Float64frombits(b)
	}
	return 1
}

// Fault is a fault in the form of POST /sim/fault.
type Fault struct {
	Kind    string  `json:"kind"`    // See [Faults.Apply].
	Count   int     `json:"count"`   // Batches or requests; default 1.
	Seconds float64 `json:"seconds"` // Duration; 0 is until told, of a restart at once.
	Factor  float64 `json:"factor"`  // Of slowness, and of the lagging counter; default 4.
	Lost    bool    `json:"lost"`    // Dropped events cannot be replayed.
	Status  int     `json:"status"`  // Of "error" and of error events; default 500.
	Every   int     `json:"every"`   // One of this many requests fails; default all.
}

// FaultKind is a kind of fault and its effect.
type FaultKind struct {
	Name, Does string
	apply      func(f *Faults, x *Fault, d time.Duration)
}

// FaultKinds lists the kinds that [Faults.Apply] takes.
func FaultKinds() []FaultKind {
	failing := func(kind requestFault) func(*Faults, *Fault, time.Duration) {
		return func(f *Faults, x *Fault, _ time.Duration) {
			f.status.Store(int64(x.Status))
			f.oneIn.Store(int64(x.Every))
			f.requests[kind].Store(int64(x.Count))
		}
	}
	lasting := func(flag func(f *Faults) *atomic.Bool) func(*Faults, *Fault, time.Duration) {
		return func(f *Faults, x *Fault, d time.Duration) {
			flag(f).Store(true)
			f.timers.start(x.Kind, d, func() { flag(f).Store(false) })
		}
	}
	scaled := func(bits func(f *Faults) *atomic.Uint64) func(*Faults, *Fault, time.Duration) {
		return func(f *Faults, x *Fault, d time.Duration) {
			bits(f).Store(math.Float64bits(x.Factor))
			f.timers.start(x.Kind, d, func() { bits(f).Store(0) })
		}
	}
	return []FaultKind{
		{"crash", "the process is gone: back after seconds, or when told restart", func(f *Faults, _ *Fault, d time.Duration) {
			if f.Crash(); d > 0 {
				f.timers.start("crash", d, func() { f.Restart(0) })
			}
		}},
		{"restart", "a crash and a new process, away for seconds", func(f *Faults, _ *Fault, d time.Duration) { f.Restart(d) }},
		{"hang", "accepts connections and answers none, for seconds", func(f *Faults, x *Fault, d time.Duration) {
			f.Hang()
			f.timers.start(x.Kind, d, f.Unhang)
		}},
		{"unhang", "ends a hang", func(f *Faults, _ *Fault, _ time.Duration) { f.Unhang() }},
		{"slow", "all work takes factor times as long, for seconds", scaled(func(f *Faults) *atomic.Uint64 { return &f.factor })},
		{"error", "the next count requests get status", failing(failStatus)},
		{"error-5xx", "the same", failing(failStatus)},
		{"empty", "the next count requests get 200 and no body", failing(failEmpty)},
		{"error-json", "the next count requests get 200 and an error document", failing(failJSON)},
		{"reset", "the next count connections are reset before the answer", failing(failReset)},
		{"reset-late", "the next count connections are reset after the first token", failing(failResetLate)},
		{"stall", "the next count requests get no answer until they are aborted", failing(failStall)},
		{"error-event", "the next count streams have an error event", failing(failEvent)},
		{"error-event-late", "the next count streams have an error event after the first token", failing(failEventLate)},
		{"drop-events", "the next count event batches are not sent; lost: nor can they be replayed", func(f *Faults, x *Fault, _ time.Duration) { f.DropEvents(x.Count, x.Lost) }},
		{"replay-silent", "replays get no answer, for seconds", lasting(func(f *Faults) *atomic.Bool { return &f.silent })},
		{"bootstrap-down", "a prefill worker's bootstrap server is gone, for seconds", lasting(func(f *Faults) *atomic.Bool { return &f.bootstrapDown })},
		{"bootstrap-503", "a prefill worker's bootstrap server is busy, for seconds", lasting(func(f *Faults) *atomic.Bool { return &f.bootstrapBusy })},
		{"stall-transfer", "the next count transfers of a prefill worker never end", func(f *Faults, x *Fault, _ time.Duration) { f.stalls.Store(int64(x.Count)) }},
		{"slow-transfer", "transfers of a prefill worker take factor times as long, for seconds", scaled(func(f *Faults) *atomic.Uint64 { return &f.link })},
		{"cached-as-used", "load reports count cached pages as used, for seconds", lasting(func(f *Faults) *atomic.Bool { return &f.cachedAsUsed })},
		{"busy-runs-behind", "load reports add a factor-th of each prefill's time, for seconds", scaled(func(f *Faults) *atomic.Uint64 { return &f.busy })},
		{"wrong-pool", "load reports multiply the pool's size by factor, for seconds", scaled(func(f *Faults) *atomic.Uint64 { return &f.pool })},
		{"none", "ends all that can be ended", func(f *Faults, _ *Fault, _ time.Duration) { f.none() }},
	}
}

// Apply applies a fault by its kind, one of [FaultKinds].
func (f *Faults) Apply(x Fault) error {
	x.Count = max(1, x.Count)
	if x.Factor <= 0 {
		x.Factor = 4
	}
	var names []string
	for _, k := range FaultKinds() {
		if k.Name == x.Kind {
			k.apply(f, &x, time.Duration(x.Seconds*float64(time.Second)))
			return nil
		}
		names = append(names, k.Name)
	}
	return fmt.Errorf("cannot apply fault %q: %w: known are %s", x.Kind, ErrFault, strings.Join(names, ", "))
}

// none ends every fault. Stalled requests remain until they are aborted.
func (f *Faults) none() {
	f.DropEvents(0, false)
	for i := range f.requests {
		f.requests[i].Store(0)
	}
	f.status.Store(0)
	f.oneIn.Store(0)
	f.stalls.Store(0)
	f.silent.Store(false)
	f.Slow(1)
	f.link.Store(0)
	f.reportFaults.none()
	f.bootstrapDown.Store(false)
	f.bootstrapBusy.Store(false)
	f.Unhang()
}
