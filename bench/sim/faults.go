package sim

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Faults makes a worker fail on demand. Its methods may be called from any goroutine while the
// worker runs. Faults outlive a restart, except a hang, which ends with its process.
type Faults struct {
	timers     faultTimers
	orders     chan order   // To Worker.Run.
	wrongModel atomic.Int64 // See [Worker.WrongModelRequests].

	mu      sync.Mutex
	now     faultState    // guarded by mu
	counted int           // Requests counted for faultState.every; guarded by mu.
	hanging chan struct{} // Open while the worker hangs, nil otherwise; guarded by mu.
}

// faultState has the faults of one moment. A factor of 0 is 1.
type faultState struct {
	drops    int             // Event batches still to be dropped.
	lost     bool            // Dropped batches cannot be replayed either.
	requests [faultKinds]int // Requests still to fail, by kind.
	status   int             // Status of failed requests, 0 for 500.
	every    int             // Only one of this many requests fails; 0 for all.
	stalls   int             // Transfers that never end.
	factor   float64         // Slowdown of all work.
	link     float64         // Slowdown of transfers.
	busy     float64         // By which the reported time of prefills lags.
	pool     float64         // Reported pool over the real one.

	cachedAsUsed  bool // Load reports count cached pages as used.
	silent        bool // Replays are not answered.
	bootstrapDown bool // The bootstrap server resets connections.
	bootstrapBusy bool // GET /route returns 503.
}

// state returns the faults of now.
func (f *Faults) state() faultState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *Faults) set(change func(s *faultState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.now)
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
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !take(&f.now.drops):
		return eventSent
	case f.now.lost:
		return eventLost
	}
	return eventUnsent
}

// nextRequestFault returns the failure of the next request.
func (f *Faults) nextRequestFault() requestFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.now.requests {
		if f.now.requests[i] == 0 {
			continue
		}
		if f.counted++; f.now.every > 1 && f.counted%f.now.every != 0 {
			return noFault
		}
		f.now.requests[i]--
		return requestFault(i)
	}
	return noFault
}

// stallsTransfer reports whether the next transfer never ends.
func (f *Faults) stallsTransfer() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return take(&f.now.stalls)
}

// take decrements n and reports whether it was positive.
func take(n *int) bool {
	if *n == 0 {
		return false
	}
	*n--
	return true
}

func (f *Faults) slowdown() float64         { return cmp.Or(f.state().factor, 1) }
func (f *Faults) transferSlowdown() float64 { return cmp.Or(f.state().link, 1) }

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
			f.set(func(s *faultState) { s.status, s.every, s.requests[kind] = x.Status, x.Every, x.Count })
		}
	}
	lasting := func(flag func(s *faultState) *bool) func(*Faults, *Fault, time.Duration) {
		return func(f *Faults, x *Fault, d time.Duration) {
			f.set(func(s *faultState) { *flag(s) = true })
			f.timers.start(x.Kind, d, func() { f.set(func(s *faultState) { *flag(s) = false }) })
		}
	}
	scaled := func(factor func(s *faultState) *float64) func(*Faults, *Fault, time.Duration) {
		return func(f *Faults, x *Fault, d time.Duration) {
			f.set(func(s *faultState) { *factor(s) = x.Factor })
			f.timers.start(x.Kind, d, func() { f.set(func(s *faultState) { *factor(s) = 0 }) })
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
		{"slow", "all work takes factor times as long, for seconds", scaled(func(s *faultState) *float64 { return &s.factor })},
		{"error", "the next count requests get status", failing(failStatus)},
		{"error-5xx", "the same", failing(failStatus)},
		{"empty", "the next count requests get 200 and no body", failing(failEmpty)},
		{"error-json", "the next count requests get 200 and an error document", failing(failJSON)},
		{"reset", "the next count connections are reset before the answer", failing(failReset)},
		{"reset-late", "the next count connections are reset after the first token", failing(failResetLate)},
		{"stall", "the next count requests get no answer until they are aborted", failing(failStall)},
		{"error-event", "the next count streams have an error event", failing(failEvent)},
		{"error-event-late", "the next count streams have an error event after the first token", failing(failEventLate)},
		{"drop-events", "the next count event batches are not sent; lost: nor can they be replayed", func(f *Faults, x *Fault, _ time.Duration) {
			f.set(func(s *faultState) { s.drops, s.lost = x.Count, x.Lost })
		}},
		{"replay-silent", "replays get no answer, for seconds", lasting(func(s *faultState) *bool { return &s.silent })},
		{"bootstrap-down", "a prefill worker's bootstrap server is gone, for seconds", lasting(func(s *faultState) *bool { return &s.bootstrapDown })},
		{"bootstrap-503", "a prefill worker's bootstrap server is busy, for seconds", lasting(func(s *faultState) *bool { return &s.bootstrapBusy })},
		{"stall-transfer", "the next count transfers of a prefill worker never end", func(f *Faults, x *Fault, _ time.Duration) {
			f.set(func(s *faultState) { s.stalls = x.Count })
		}},
		{"slow-transfer", "transfers of a prefill worker take factor times as long, for seconds", scaled(func(s *faultState) *float64 { return &s.link })},
		{"cached-as-used", "load reports count cached pages as used, for seconds", lasting(func(s *faultState) *bool { return &s.cachedAsUsed })},
		{"busy-runs-behind", "load reports add a factor-th of each prefill's time, for seconds", scaled(func(s *faultState) *float64 { return &s.busy })},
		{"wrong-pool", "load reports multiply the pool's size by factor, for seconds", scaled(func(s *faultState) *float64 { return &s.pool })},
		{"none", "ends all that can be ended, but not requests that stall already", func(f *Faults, _ *Fault, _ time.Duration) {
			f.set(func(s *faultState) { *s = faultState{} })
			f.Unhang()
		}},
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
