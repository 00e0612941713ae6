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
	agent *cgo.Agent
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
	return &libraryEngine{agent: agent}, nil
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

func (e *libraryEngine) Register(m *Memory) error { return e.agent.Register([]Region{m.Region()}) }

func (e *libraryEngine) Deregister(m *Memory) error { return e.agent.Deregister([]Region{m.Region()}) }

func (e *libraryEngine) Metadata() ([]byte, error) { return e.agent.Metadata() }

func (e *libraryEngine) LoadPeer(metadata []byte) (string, error) { return e.agent.LoadPeer(metadata) }

func (e *libraryEngine) ForgetPeer(name string) error { return e.agent.ForgetPeer(name) }

func (e *libraryEngine) Create(op Op, peer string, local, remote []Region) (Request, error) {
	r, err := e.agent.CreateRequest(op, peer, local, remote)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (e *libraryEngine) Post(r Request) error { return e.agent.Post(r.(cgo.Request)) }

func (e *libraryEngine) Wait(requests []Request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) {
	e.batch = e.batch[:0]
	for _, r := range requests {
		e.batch = append(e.batch, r.(cgo.Request))
	}
	e.agent.Wait(e.batch, statuses, timeout, wake)
}

func (e *libraryEngine) Release(r Request) error { return e.agent.Release(r.(cgo.Request)) }

func (e *libraryEngine) Destroy() error { return e.agent.Destroy() }
