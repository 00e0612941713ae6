package nixl

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Memory is memory registered with an agent: the agent's transfers may use it, and its peers
// may read and write it.
type Memory struct {
	agent   *Agent
	mapping *Mapping
	name    string
	id      uint32

	closing sync.Once
	err     error // of the closing

	users  int  // unsettled transfers and retiring engines; guarded by memoryTable.mu
	closed bool // no new transfer; guarded by memoryTable.mu
}

// ErrRegister is returned where memory cannot be registered.
var ErrRegister = errors.New("nixl: cannot register memory")

// Register registers a mapping, which stays mapped until the registration has ended.
func (a *Agent) Register(m *Mapping) (*Memory, error) {
	if err := m.retain(); err != nil {
		return nil, err
	}
	memory := &Memory{agent: a, mapping: m, name: m.file.Name()}
	var err error
	closed := a.do(func(e *executor) {
		if err = e.engine.Register(memory); err == nil {
			a.memories.add(memory)
		}
	})
	if closed != nil {
		return nil, errors.Join(closed, m.release())
	}
	if err != nil {
		err = fmt.Errorf("%w %q of %d bytes: %w", ErrRegister, memory.name, memory.Len(), err)
		return nil, errors.Join(err, m.release())
	}
	return memory, nil
}

// Bytes is the memory. It must not be touched after the mapping has ended.
func (m *Memory) Bytes() []byte { return m.mapping.Bytes() }

// Region is the memory's address in this process and its length.
func (m *Memory) Region() Region { return Region{Addr: m.mapping.addr(), Len: m.Len()} }

// ID names the memory among those of its agent, for peers too.
func (m *Memory) ID() uint32 { return m.id }

// Len is its size in bytes.
func (m *Memory) Len() uint64 { return uint64(len(m.mapping.data)) }

// Close ends the registration; no transfer starts with the memory afterwards. Close does not
// wait: registration and mapping stay while a transfer could still use the memory.
func (m *Memory) Close() error {
	a := m.agent
	m.closing.Do(func() {
		closed := a.do(func(e *executor) {
			if a.memories.close(m) {
				m.err = e.deregister(m)
			}
		})
		if closed == nil {
			return
		}
		select {
		case <-a.ended: // and every registration with it
			m.err = a.memories.remove(m)
		case <-time.After(closeTimeout):
			m.err = ErrStuck
		}
	})
	return m.err
}

// deregister ends the registration of a closed memory without users.
func (e *executor) deregister(m *Memory) error {
	return errors.Join(e.engine.Deregister(m), e.agent.memories.remove(m))
}

// deregisterUnused deregisters closed memories without users.
func (e *executor) deregisterUnused() {
	for _, m := range e.agent.memories.takeUnused() {
		if err := e.deregister(m); err != nil {
			e.agent.cfg.Log.Warn("cannot deregister memory", "memory", m.name, "error", err)
		}
	}
}

// releaseMemory takes a retain back. An empty call makes the present executor deregister
// memories that were closed meanwhile; where the queue is full, the executor is awake anyway.
func (a *Agent) releaseMemory(list ...*Memory) {
	if !a.memories.release(list...) {
		return
	}
	select {
	case a.calls <- func(*executor) {}:
	default:
	}
}
