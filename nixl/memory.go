package nixl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/cgo"
)

// Memory is memory that is registered with an agent: its own transfers may use it, and its peers may read and write it.
type Memory struct {
	agent   *Agent
	mapping *Mapping // nil for device memory
	name    string
	id      uint32
	kind    cgo.Kind
	region  cgo.Region

	closing sync.Once
	err     error // of the closing

	gone   chan struct{} // closed when the registration has ended
	users  int           // transfers that are not settled, and engines that retire; guarded by Agent.mu
	closed bool          // no new transfer; guarded by Agent.mu
}

// ErrRegister is returned where memory cannot be registered.
var ErrRegister = errors.New("nixl: cannot register memory")

// Register makes a mapping known to the agent; the mapping stays mapped until the registration has ended.
func (a *Agent) Register(m *Mapping) (*Memory, error) {
	if err := m.retain(); err != nil {
		return nil, err
	}
	memory := &Memory{
		agent: a, mapping: m, name: m.file.Name(), kind: cgo.Host, gone: make(chan struct{}),
		region: cgo.Region{Addr: m.addr(), Len: uint64(len(m.data))},
	}
	if err := a.register(memory); err != nil {
		return nil, errors.Join(err, m.release())
	}
	return memory, nil
}

// RegisterDevice makes memory of a GPU known to the agent. The caller keeps it allocated until the registration has ended.
func (a *Agent) RegisterDevice(addr, size uint64, gpu int) (*Memory, error) {
	memory := &Memory{
		agent: a, name: fmt.Sprintf("GPU %d", gpu), kind: cgo.Device, gone: make(chan struct{}),
		region: cgo.Region{Addr: addr, Len: size, Dev: uint64(gpu)},
	}
	if err := a.register(memory); err != nil {
		return nil, err
	}
	return memory, nil
}

func (a *Agent) register(m *Memory) error {
	var err error
	closed := a.do(func(o *owner) {
		if err = o.engine.register(m); err != nil {
			return
		}
		a.nextID++
		m.id = a.nextID
		a.mu.Lock()
		defer a.mu.Unlock()
		a.memories[m.id] = m
	})
	if closed != nil {
		return closed
	}
	if err != nil {
		return fmt.Errorf("%w %q of %d bytes: %w", ErrRegister, m.name, m.region.Len, err)
	}
	return nil
}

// Bytes is the memory; nil for device memory.
func (m *Memory) Bytes() []byte {
	if m.mapping == nil {
		return nil
	}
	return m.mapping.Bytes()
}

// ID names the memory among those of its agent, for peers too.
func (m *Memory) ID() uint32 { return m.id }

// Len is its size in bytes.
func (m *Memory) Len() uint64 { return m.region.Len }

// Close ends the registration. No transfer starts with the memory afterwards. While a transfer could still use it the registration, and with it the
// mapping, stays: Close does not wait for that, Settled tells.
func (m *Memory) Close() error {
	a := m.agent
	m.closing.Do(func() {
		closed := a.do(func(o *owner) {
			a.mu.Lock()
			m.closed = true
			unused := m.users == 0
			a.mu.Unlock()
			if unused {
				m.err = o.free(m)
			}
		})
		if closed == nil {
			return
		}
		select {
		case <-a.ended: // and every registration with it
			m.err = a.forget(m)
		case <-time.After(closePatience):
			m.err = ErrStuck
		}
	})
	return m.err
}

// Settled is closed when the registration has ended.
func (m *Memory) Settled() <-chan struct{} { return m.gone }

// free ends the registration of a closed memory that nobody uses.
func (o *owner) free(m *Memory) error {
	return errors.Join(o.engine.deregister(m), o.agent.forget(m))
}

// freeIdle frees memories whose last user has gone.
func (o *owner) freeIdle() {
	for _, m := range o.agent.takeIdle() {
		if err := o.free(m); err != nil {
			o.agent.cfg.Log.Warn("cannot deregister memory", "memory", m.name, "error", err)
		}
	}
}

func (a *Agent) takeIdle() []*Memory {
	a.mu.Lock()
	defer a.mu.Unlock()
	idle := a.idle
	a.idle = nil
	return idle
}

// forget is the end of a registration.
func (a *Agent) forget(m *Memory) error {
	a.mu.Lock()
	known := a.memories[m.id] == m
	delete(a.memories, m.id)
	a.mu.Unlock()
	if !known {
		return nil
	}
	close(m.gone)
	if m.mapping == nil {
		return nil
	}
	return m.mapping.release()
}

func (a *Agent) listMemories() []*Memory {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Values(a.memories))
}

// use notes that a transfer uses a memory. It fails on a closed one.
func (a *Agent) use(m *Memory) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m.closed {
		return fmt.Errorf("memory %q: %w", m.name, ErrClosed)
	}
	m.users++
	return nil
}

// useAll notes that an engine uses all memories, closed ones too.
func (a *Agent) useAll() []*Memory {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range a.memories {
		m.users++
	}
	return slices.Collect(maps.Values(a.memories))
}

// unuse takes use back. The present owner frees what is left over, at its next turn: a call that does nothing brings that about.
func (a *Agent) unuse(list ...*Memory) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range list {
		m.users--
		if m.users > 0 || !m.closed {
			continue
		}
		a.idle = append(a.idle, m)
		select {
		case a.calls <- func(o *owner) { o.freeIdle() }:
		default: // many calls wait, so that one of them will
		}
	}
}
