package nixl

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// owner is the goroutine that makes all calls into one engine, on one OS thread, because the library's agents allow no other. When the engine must go,
// the owner starts the next one, finishes what is under way and destroys its engine, so that a destruction that hangs holds up nobody.
type owner struct {
	agent      *Agent
	engine     engine
	generation uint64
	name       string
	wake       atomic.Uint32 // not 0: a call waits
	again      time.Time     // when a next engine is tried, where this one could not be made

	active     []*Transfer // posted, not ended
	quarantine quarantine
	held       []*Memory // used by the engine as a whole, while it retires

	flights  []*flight // reused by look
	requests []request
	statuses []int32
}

const (
	// busySlice bounds a wait in the library while transfers are under way; calls end it early.
	busySlice = 20 * time.Millisecond
	// idleTick is how often an owner without active transfers looks at those that were given up.
	idleTick = 20 * time.Millisecond
	// handoverPause is the least time between two engines: one takes up to a second of CPU to make.
	handoverPause = time.Second
)

// own is the goroutine. created, where there is one, is told whether the engine could be made, and nothing stays if not.
func (a *Agent) own(created chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer a.leave()
	o := &owner{agent: a, generation: a.generation.Load() + 1}
	o.name = a.nameOf(o.generation)
	e, err := a.fabric.open(&a.cfg, o.name)
	if created != nil {
		created <- err
		if err != nil {
			return
		}
	}
	o.engine = e
	if err == nil {
		err = o.registerAll()
	}
	if err != nil {
		o.goDown(err)
	}
	a.present.Store(o)
	a.generation.Store(o.generation)
	o.run()
}

// leave ends an owner; the last one ends the agent.
func (a *Agent) leave() {
	if a.owners.Add(-1) > 0 {
		return
	}
	for _, m := range a.takeIdle() {
		if err := a.forget(m); err != nil {
			a.setErr(err)
		}
	}
	close(a.ended)
}

// goDown puts an engine that refuses everything in the place of one that could not be made.
func (o *owner) goDown(err error) {
	a := o.agent
	a.cfg.Log.Error("cannot create a NIXL agent in the place of another; it is tried again", "agent", o.name, "error", err)
	if o.engine != nil {
		_ = o.engine.destroy() // the error that brought us here says more
	}
	o.engine = down{fmt.Errorf("%w: %w", ErrDown, err)}
	o.again = time.Now().Add(handoverPause)
}

// registerAll makes the agent's memory known to a new engine.
func (o *owner) registerAll() error {
	for _, m := range o.agent.listMemories() {
		if err := o.engine.register(m); err != nil {
			return fmt.Errorf("%w %q again: %w", ErrRegister, m.name, err)
		}
	}
	return nil
}

// run works until Close, or until the next owner is there and nothing is left to do.
func (o *owner) run() {
	a := o.agent
	for o.serve() {
		o.work()
		if o.handoverIsDue() {
			o.handOver()
			o.retire()
			break
		}
	}
	for _, t := range slices.Clone(o.active) { // after Close
		o.fail(t, ErrClosed, true)
	}
	o.quarantine.releaseRequests(o.engine)
	err := o.engine.destroy()
	o.quarantine.settleAll(o)
	a.unuse(o.held...)
	if err != nil {
		a.setErr(fmt.Errorf("cannot destroy agent %q: %w", o.name, err))
		a.cfg.Log.Warn("cannot destroy a NIXL agent", "agent", o.name, "error", err)
	}
}

// handoverIsDue reports whether another engine must take the place of this one.
func (o *owner) handoverIsDue() bool {
	a, now := o.agent, time.Now()
	if !o.again.IsZero() {
		return now.After(o.again)
	}
	return o.quarantine.needsEnd(now, a.cfg.QuarantineAge) && now.Sub(a.lastHandover) > handoverPause
}

// handOver starts the next owner. All memory is in use by this one until it has ended.
func (o *owner) handOver() {
	a := o.agent
	a.lastHandover = time.Now()
	a.counters.handovers.Add(1)
	a.cfg.Log.Info("another NIXL agent takes the place of this one", "agent", o.name, "quarantined_bytes", o.quarantine.bytes())
	o.held = a.useAll()
	a.owners.Add(1)
	go a.own(nil)
}

// retire finishes what is under way; calls go to the next owner.
func (o *owner) retire() {
	for len(o.active) > 0 && !o.agent.isClosed() {
		o.work()
	}
}

// serve runs the calls that wait, and waits for one where there is nothing else to do. It returns false after Close.
func (o *owner) serve() bool {
	a := o.agent
	o.wake.Store(0)
	for {
		select {
		case <-a.done:
			return false
		case call := <-a.calls:
			call(o)
			continue
		default:
		}
		if len(o.active) > 0 {
			return true
		}
		if !o.idle() {
			return !a.isClosed()
		}
	}
}

// idle waits for a call and runs it. It returns false when there is something else to look at, or after Close.
func (o *owner) idle() bool {
	var tick <-chan time.Time
	if !o.quarantine.empty() || !o.again.IsZero() {
		timer := time.NewTimer(idleTick)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-o.agent.done:
		return false
	case call := <-o.agent.calls:
		call(o)
		return true
	case <-tick:
		return false
	}
}

// work moves the active transfers on, and looks after those in quarantine.
func (o *owner) work() {
	more := false
	for _, t := range slices.Clone(o.active) {
		if !t.isDone() { // the failure of one ends others with the same peer
			more = o.advance(t) || more
		}
	}
	if len(o.active) > 0 {
		slice := busySlice
		if more {
			slice = 0
		}
		o.look(slice)
		o.giveUp()
	}
	o.quarantine.look(o)
}

// look waits until a request has ended and takes note of all that have.
func (o *owner) look(timeout time.Duration) {
	o.flights, o.requests = o.flights[:0], o.requests[:0]
	for _, t := range o.active {
		for _, f := range t.flying {
			o.flights, o.requests = append(o.flights, f), append(o.requests, f.request)
		}
	}
	if len(o.requests) == 0 {
		return
	}
	o.statuses = slices.Grow(o.statuses[:0], len(o.requests))[:len(o.requests)]
	o.engine.wait(o.requests, o.statuses, timeout, &o.wake)
	for i, f := range o.flights {
		if s := cgo.StatusError(o.statuses[i]); s != cgo.ErrInProgress && !f.transfer.isDone() {
			o.landed(f, s)
		}
	}
}

// giveUp ends transfers that nobody waits for any more, that take too long, or whose peer is dead.
func (o *owner) giveUp() {
	now := time.Now()
	for _, t := range slices.Clone(o.active) {
		switch reason := t.givenUp.Load(); {
		case t.remote.Err() != nil:
			o.fail(t, t.remote.Err(), true)
		case reason != nil:
			o.fail(t, *reason, false)
		case now.After(t.deadline):
			o.fail(t, fmt.Errorf("%w after %v", ErrTimeout, o.agent.cfg.Timeout), false)
		}
	}
}

// metadata of the agent as it is now.
func (o *owner) metadata() ([]byte, error) {
	blob, err := o.engine.metadata()
	if err != nil {
		return nil, err
	}
	m := metadata{name: o.name, blob: blob}
	for _, memory := range o.agent.listMemories() {
		m.memories = append(m.memories, RemoteMemory{ID: memory.id, Kind: memory.kind, Addr: memory.region.Addr, Len: memory.region.Len, Dev: memory.region.Dev})
	}
	slices.SortFunc(m.memories, func(a, b RemoteMemory) int { return int(a.ID) - int(b.ID) })
	return m.append(nil), nil
}

// drop takes a transfer out of the active ones.
func (o *owner) drop(t *Transfer) {
	o.active = slices.DeleteFunc(o.active, func(other *Transfer) bool { return other == t })
}

// statusOf is the status in a call's error: 0 for none.
func statusOf(err error) cgo.StatusError {
	if err == nil {
		return 0
	}
	if status, ok := errors.AsType[cgo.StatusError](err); ok {
		return status
	}
	return cgo.ErrBackend
}
