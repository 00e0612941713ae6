//go:build cgo && linux

package nixl

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// libraryEngine is an agent of NVIDIA's library.
type libraryEngine struct {
	*cgo.Agent
	batch []cgo.Request // reused by Wait
}

var _ Engine = (*libraryEngine)(nil)

// Open creates an agent of the library.
func (l *Library) Open(name, backend string) (Engine, error) {
	agent, err := l.lib.CreateAgent(name)
	if err != nil {
		return nil, err
	}
	if err := agent.CreateBackend(backend); err != nil {
		_ = agent.Destroy() // the first error names the cause
		return nil, err
	}
	return &libraryEngine{Agent: agent}, nil
}

// plugins lists plugins by an agent without a backend, on the calling thread.
func (l *Library) plugins(name string) ([]string, error) {
	agent, err := l.lib.CreateAgent(name)
	if err != nil {
		return nil, err
	}
	names, err := agent.Plugins()
	return names, errors.Join(err, agent.Destroy())
}

func (e *libraryEngine) Register(m *Memory) error { return e.Agent.Register([]Region{m.Region()}) }

func (e *libraryEngine) Deregister(m *Memory) error { return e.Agent.Deregister([]Region{m.Region()}) }

func (e *libraryEngine) Create(op Op, peer string, local, remote []Region) (Request, error) {
	r, err := e.CreateRequest(op, peer, local, remote)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (e *libraryEngine) Post(r Request) error { return e.Agent.Post(r.(cgo.Request)) }

func (e *libraryEngine) Wait(requests []Request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) {
	e.batch = e.batch[:0]
	for _, r := range requests {
		e.batch = append(e.batch, r.(cgo.Request))
	}
	e.Agent.Wait(e.batch, statuses, timeout, wake)
}

func (e *libraryEngine) Release(r Request) error { return e.Agent.Release(r.(cgo.Request)) }
