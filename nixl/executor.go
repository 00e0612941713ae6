package nixl

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// executor is the goroutine that makes all calls into one engine, on one OS thread, because an
// agent of the library allows no other. When an engine must be replaced, the executor starts
// its successor, finishes the transfers in progress and destroys its engine, so that a
// destruction that hangs delays nobody.
type executor struct {
	agent      *Agent
	engine     Engine
	generation uint64
	name       string
	wake       atomic.Uint32 // not 0: a call waits
	retryAt    time.Time     // of creating an engine, where this one could not be created

	active    activeTransfers
	abandoned abandonedTransfers
	retained  []*Memory // kept registered for the engine while it retires
}

const (
	// busyWait bounds a wait in the library while transfers are in progress; calls end it
	// early.
	busyWait = 20 * time.Millisecond
	// abandonedPoll is the time between two polls of abandoned transfers.
	abandonedPoll = 20 * time.Millisecond
	// replacementPause is the least time between two engines: creating one takes up to 1 s of
	// CPU.
	replacementPause = time.Second
)

// execute is the goroutine. For the first executor, created gets the error of creating the
// engine, and an error ends the executor.
func execute(a *Agent, created chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	o := &executor{agent: a, generation: a.generation.Load() + 1}
	o.active.executor, o.abandoned.executor = o, o
	defer o.leave()
	o.name = a.nameOf(o.generation)
	engine, err := a.fabric.Open(o.name, a.cfg.Backend)
	if created != nil {
		created <- err
		if err != nil {
			return
		}
	}
	o.engine = engine
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

// leave ends an executor; the last one ends the agent.
func (o *executor) leave() {
	a := o.agent
	if a.executors.Add(-1) > 0 {
		return
	}
	for _, m := range a.memories.takeUnused() {
		if err := a.memories.remove(m); err != nil {
			a.addError(err)
		}
	}
	close(a.ended)
}

// goDown installs an engine that refuses everything in the place of one that could not be
// created.
func (o *executor) goDown(err error) {
	o.agent.cfg.Log.Error("cannot create a NIXL agent to replace another; retrying", "agent", o.name, "error", err)
	if o.engine != nil {
		_ = o.engine.Destroy() // the first error names the cause
	}
	o.engine = downEngine{fmt.Errorf("%w: %w", ErrDown, err)}
	o.retryAt = time.Now().Add(replacementPause)
}

// registerAll registers the agent's memory with a new engine.
func (o *executor) registerAll() error {
	for _, m := range o.agent.memories.list() {
		if err := o.engine.Register(m); err != nil {
			return fmt.Errorf("%w %q again: %w", ErrRegister, m.name, err)
		}
	}
	return nil
}

// run works until Close, or until a successor has taken over and no transfer is in progress.
func (o *executor) run() {
	a := o.agent
	for o.serve() {
		o.work()
		if o.replacementDue() {
			o.replace()
			o.finishActive()
			break
		}
	}
	o.active.failAll(ErrClosed) // none is left but after Close
	o.abandoned.release()
	err := o.engine.Destroy()
	o.abandoned.settleAll()
	a.releaseMemory(o.retained...)
	if err != nil {
		a.addError(fmt.Errorf("cannot destroy agent %q: %w", o.name, err))
		a.cfg.Log.Warn("cannot destroy a NIXL agent", "agent", o.name, "error", err)
	}
}

// replacementDue reports whether a new engine must replace this one.
func (o *executor) replacementDue() bool {
	now := time.Now()
	if !o.retryAt.IsZero() {
		return now.After(o.retryAt)
	}
	return now.Sub(o.agent.lastReplacement) > replacementPause && o.abandoned.needReplacement(now)
}

// replace starts the successor. This engine keeps all memory registered until it is destroyed.
func (o *executor) replace() {
	a := o.agent
	a.lastReplacement = time.Now()
	a.counters.replacements.Add(1)
	a.cfg.Log.Info("replacing a NIXL agent", "agent", o.name, "abandoned_bytes", o.abandoned.bytes())
	o.retained = a.memories.retainAll()
	a.executors.Add(1)
	go execute(a, nil)
}

// finishActive finishes the transfers in progress; new calls go to the successor.
func (o *executor) finishActive() {
	for !o.active.empty() && !o.agent.isClosed() {
		o.work()
	}
}

// serve runs the calls that wait, and waits for one where nothing else is to do. It returns
// false after Close.
func (o *executor) serve() bool {
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
		o.deregisterUnused()
		if !o.active.empty() {
			return true
		}
		if !o.idle() {
			return !a.isClosed()
		}
	}
}

// idle waits for a call and runs it. It returns false when a poll is due, or after Close.
func (o *executor) idle() bool {
	var tick <-chan time.Time
	if !o.abandoned.empty() || !o.retryAt.IsZero() {
		timer := time.NewTimer(abandonedPoll)
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

// work advances the active transfers and polls the abandoned ones.
func (o *executor) work() {
	o.active.work()
	o.abandoned.poll()
}

// metadata of the agent as it is now.
func (o *executor) metadata() ([]byte, error) {
	data, err := o.engine.Metadata()
	if err != nil {
		return nil, err
	}
	m := metadata{Name: o.name, Library: data}
	for _, memory := range o.agent.memories.list() {
		r := memory.Region()
		m.Memories = append(m.Memories, RemoteMemory{ID: memory.id, Addr: r.Addr, Len: r.Len})
	}
	slices.SortFunc(m.Memories, func(a, b RemoteMemory) int { return cmp.Compare(a.ID, b.ID) })
	return m.encode()
}
