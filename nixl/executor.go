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
	e := &executor{agent: a, generation: a.generation.Load() + 1}
	e.active.executor, e.abandoned.executor = e, e
	defer e.leave()
	e.name = a.nameOf(e.generation)
	engine, err := a.fabric.Open(e.name, a.cfg.Backend)
	if created != nil {
		created <- err
		if err != nil {
			return
		}
	}
	e.engine = engine
	if err == nil {
		err = e.registerAll()
	}
	if err != nil {
		e.goDown(err)
	}
	a.present.Store(e)
	a.generation.Store(e.generation)
	e.run()
}

// leave ends an executor; the last one ends the agent.
func (e *executor) leave() {
	a := e.agent
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
func (e *executor) goDown(err error) {
	e.agent.cfg.Log.Error("cannot create a NIXL agent to replace another; retrying", "agent", e.name, "error", err)
	if e.engine != nil {
		_ = e.engine.Destroy() // the first error names the cause
	}
	e.engine = downEngine{fmt.Errorf("%w: %w", ErrDown, err)}
	e.retryAt = time.Now().Add(replacementPause)
}

// registerAll registers the agent's memory with a new engine.
func (e *executor) registerAll() error {
	for _, m := range e.agent.memories.list() {
		if err := e.engine.Register(m); err != nil {
			return fmt.Errorf("%w %q again: %w", ErrRegister, m.name, err)
		}
	}
	return nil
}

// run works until Close, or until a successor has taken over and no transfer is in progress.
func (e *executor) run() {
	a := e.agent
	for e.serve() {
		e.work()
		if e.replacementDue() {
			e.replace()
			e.finishActive()
			break
		}
	}
	e.active.failAll(ErrClosed) // none is left but after Close
	e.abandoned.release()
	err := e.engine.Destroy()
	e.abandoned.settleAll()
	a.releaseMemory(e.retained...)
	if err != nil {
		a.addError(fmt.Errorf("cannot destroy agent %q: %w", e.name, err))
		a.cfg.Log.Warn("cannot destroy a NIXL agent", "agent", e.name, "error", err)
	}
}

// replacementDue reports whether a new engine must replace this one.
func (e *executor) replacementDue() bool {
	now := time.Now()
	if !e.retryAt.IsZero() {
		return now.After(e.retryAt)
	}
	return now.Sub(e.agent.lastReplacement) > replacementPause && e.abandoned.needReplacement(now)
}

// replace starts the successor. This engine keeps all memory registered until it is destroyed.
func (e *executor) replace() {
	a := e.agent
	a.lastReplacement = time.Now()
	a.counters.add(func(s *Stats) { s.Replacements++ })
	a.cfg.Log.Info("replacing a NIXL agent", "agent", e.name, "abandoned_bytes", e.abandoned.bytes())
	e.retained = a.memories.retainAll()
	a.executors.Add(1)
	go execute(a, nil)
}

// finishActive finishes the transfers in progress; new calls go to the successor.
func (e *executor) finishActive() {
	for !e.active.empty() && !e.agent.isClosed() {
		e.work()
	}
}

// serve runs the calls that wait, and waits for one where nothing else is to do. It returns
// false after Close.
func (e *executor) serve() bool {
	a := e.agent
	e.wake.Store(0)
	for {
		select {
		case <-a.done:
			return false
		case call := <-a.calls:
			call(e)
			continue
		default:
		}
		e.deregisterUnused()
		if !e.active.empty() {
			return true
		}
		if !e.idle() {
			return !a.isClosed()
		}
	}
}

// idle waits for a call and runs it. It returns false when a poll is due, or after Close.
func (e *executor) idle() bool {
	var tick <-chan time.Time
	if !e.abandoned.empty() || !e.retryAt.IsZero() {
		timer := time.NewTimer(abandonedPoll)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-e.agent.done:
		return false
	case call := <-e.agent.calls:
		call(e)
		return true
	case <-tick:
		return false
	}
}

// work advances the active transfers and polls the abandoned ones.
func (e *executor) work() {
	e.active.work()
	e.abandoned.poll()
}

// metadata of the agent as it is now.
func (e *executor) metadata() ([]byte, error) {
	data, err := e.engine.Metadata()
	if err != nil {
		return nil, err
	}
	m := metadata{Name: e.name, Library: data}
	for _, memory := range e.agent.memories.list() {
		r := memory.Region()
		m.Memories = append(m.Memories, RemoteMemory{ID: memory.id, Addr: r.Addr, Len: r.Len})
	}
	slices.SortFunc(m.Memories, func(a, b RemoteMemory) int { return cmp.Compare(a.ID, b.ID) })
	return m.encode()
}
