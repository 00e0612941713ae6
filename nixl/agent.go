package nixl

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/warmpath/warmpath/cgo"
)

// Agent is one NIXL agent and the goroutine that owns it. Names must be unique among the agents that will meet: a
// restarted process takes a new one.
type Agent struct {
	name  string
	calls chan func(*cgo.NIXL, cgo.Agent) // unbuffered: a call is taken by the owner, or refused after Close
	done  chan struct{}                   // closed by Close: the owner takes no more calls
	ended chan struct{}                   // closed by the owner after the agent is destroyed
	close sync.Once
	err   error // of the destruction; written before ended is closed
}

// NewAgent creates an agent without a backend. The caller closes it.
func (l *Library) NewAgent(name string) (*Agent, error) {
	a := &Agent{
		name:  name,
		calls: make(chan func(*cgo.NIXL, cgo.Agent)),
		done:  make(chan struct{}),
		ended: make(chan struct{}),
	}
	created := make(chan error)
	go a.own(l.lib, created)
	if err := <-created; err != nil {
		<-a.ended
		return nil, fmt.Errorf("cannot create agent %q: %w", name, err)
	}
	return a, nil
}

// own is the owner goroutine: it creates the agent, runs calls and destroys the agent, all on one OS thread, because
// NIXL's default thread mode allows no other.
func (a *Agent) own(lib *cgo.NIXL, created chan<- error) {
	defer close(a.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	handle, err := lib.CreateAgent(a.name)
	created <- err
	if err != nil {
		return
	}
	for {
		select {
		case call := <-a.calls:
			call(lib, handle)
		case <-a.done:
			a.err = lib.DestroyAgent(handle)
			return
		}
	}
}

// do runs call on the owner and waits for its end.
func (a *Agent) do(call func(*cgo.NIXL, cgo.Agent)) error {
	finished := make(chan struct{})
	wrapped := func(lib *cgo.NIXL, handle cgo.Agent) {
		defer close(finished)
		call(lib, handle)
	}
	select {
	case a.calls <- wrapped:
		<-finished
		return nil
	case <-a.done:
		return ErrClosed
	}
}

// Plugins returns the names of the transfer plugins that the agent can load.
func (a *Agent) Plugins() ([]string, error) {
	var names []string
	var err error
	if closed := a.do(func(lib *cgo.NIXL, handle cgo.Agent) { names, err = lib.Plugins(handle) }); closed != nil {
		return nil, closed
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list plugins of agent %q: %w", a.name, err)
	}
	return names, nil
}

// Close destroys the agent and ends its goroutine. Later calls do nothing and return the same.
func (a *Agent) Close() error {
	a.close.Do(func() { close(a.done) })
	<-a.ended
	if a.err != nil {
		return fmt.Errorf("cannot destroy agent %q: %w", a.name, a.err)
	}
	return nil
}
