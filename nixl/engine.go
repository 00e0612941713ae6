package nixl

import (
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// Fabric makes agents: a [Library], or a [Loopback] in tests.
type Fabric interface {
	// open creates an engine. It, and every call into the engine, belongs to one OS thread.
	open(cfg *Config, name string) (engine, error)
}

// engine is an agent as a fabric knows it, until it is destroyed. Errors are cgo.StatusError where the fabric refuses.
type engine interface {
	plugins() ([]string, error)
	register(m *Memory) error
	deregister(m *Memory) error
	metadata() ([]byte, error)
	load(metadata []byte) (name string, err error)
	invalidate(peer string) error
	notify(peer string, message []byte) error
	notes() ([]cgo.Note, error)

	create(job *cgo.Job, local, remote []cgo.Region) (request, error)
	// post starts a request: nil is done, cgo.ErrInProgress under way.
	post(r request) error
	// wait blocks until one of the requests has ended, the time is over, or wake is not 0, and fills statuses.
	wait(requests []request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) (ended int)
	// release forgets a request. Bytes of one that is under way still move.
	release(r request) error
	telemetry(r request) (cgo.Telemetry, error)

	// destroy ends the engine. When it has returned, no byte moves any more by a request of this engine.
	destroy() error
}

// request is an engine's own.
type request any

// library is an engine of NVIDIA's library.
type library struct {
	lib   *cgo.NIXL
	agent cgo.Agent
	batch []cgo.Request // reused by wait
}

var _ engine = (*library)(nil)

func (l *Library) open(cfg *Config, name string) (engine, error) {
	agent, err := l.lib.CreateAgent(name, cfg.Telemetry)
	if err != nil {
		return nil, err
	}
	if cfg.Backend == noBackend {
		return &library{lib: l.lib, agent: agent}, nil
	}
	var params []string
	for key, value := range cfg.Params {
		params = append(params, key, value)
	}
	if err := l.lib.CreateBackend(agent, cfg.Backend, params); err != nil {
		_ = l.lib.DestroyAgent(agent) // the first error is the one that says something
		return nil, err
	}
	return &library{lib: l.lib, agent: agent}, nil
}

func (e *library) plugins() ([]string, error) { return e.lib.Plugins(e.agent) }

func (e *library) register(m *Memory) error {
	return e.lib.Register(e.agent, m.kind, []cgo.Region{m.region})
}

func (e *library) deregister(m *Memory) error {
	return e.lib.Deregister(e.agent, m.kind, []cgo.Region{m.region})
}

func (e *library) metadata() ([]byte, error)            { return e.lib.LocalMetadata(e.agent) }
func (e *library) load(metadata []byte) (string, error) { return e.lib.LoadRemote(e.agent, metadata) }

func (e *library) invalidate(peer string) error { return e.lib.InvalidateRemote(e.agent, peer) }

func (e *library) notify(peer string, data []byte) error { return e.lib.Notify(e.agent, peer, data) }
func (e *library) notes() ([]cgo.Note, error)            { return e.lib.Notes(e.agent) }

func (e *library) create(job *cgo.Job, local, remote []cgo.Region) (request, error) {
	r, err := e.lib.CreateRequest(e.agent, job, local, remote)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (e *library) post(r request) error { return e.lib.Post(e.agent, r.(cgo.Request)) }

func (e *library) wait(requests []request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) int {
	e.batch = e.batch[:0]
	for _, r := range requests {
		e.batch = append(e.batch, r.(cgo.Request))
	}
	return e.lib.Wait(e.agent, e.batch, statuses, timeout, wake)
}

func (e *library) release(r request) error { return e.lib.Release(e.agent, r.(cgo.Request)) }

func (e *library) telemetry(r request) (cgo.Telemetry, error) {
	return e.lib.Telemetry(e.agent, r.(cgo.Request))
}

func (e *library) destroy() error { return e.lib.DestroyAgent(e.agent) }
