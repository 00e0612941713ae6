package nixl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
)

var (
	// ErrPeer is returned when a peer is dead, or does not answer as a live one does. Load its
	// metadata again when it is back.
	ErrPeer = errors.New("nixl: peer failed")
	// ErrNoMemory is returned for memory that a peer has not registered.
	ErrNoMemory = errors.New("nixl: peer has no such memory")
)

// Remote is a peer, loaded from its metadata.
type Remote struct {
	agent *Agent
	name  string

	mu       sync.Mutex
	memories []RemoteMemory // guarded by mu; never changed in place
	failed   error          // guarded by mu; set once

	// The next two belong to the executor.
	data       []byte // metadata as received
	generation uint64 // of the engine that has loaded it
}

// Load makes a peer known, which takes up to 0.3 s over UCX. Newer metadata of a known peer
// replaces the older. Load does not contact the peer: the first transfer finds out whether it
// is alive.
func (a *Agent) Load(data []byte) (*Remote, error) {
	m, err := decodeMetadata(data)
	if err != nil {
		return nil, err
	}
	var r *Remote
	if closed := a.do(func(e *executor) { r, err = e.loadRemote(m, bytes.Clone(data)) }); closed != nil {
		return nil, closed
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load metadata of %q: %w", m.Name, err)
	}
	return r, nil
}

func (e *executor) loadRemote(m *metadata, data []byte) (*Remote, error) {
	if m.Name == e.name {
		return nil, fmt.Errorf("%w: it is this agent's own", ErrMetadata)
	}
	r := e.agent.remotes[m.Name]
	if r != nil && r.generation == e.generation && r.Err() == nil && bytes.Equal(r.data, data) {
		return r, nil
	}
	if r == nil || r.Err() != nil {
		r = &Remote{agent: e.agent, name: m.Name}
	}
	r.data = data
	if err := e.loadIntoEngine(r, m); err != nil {
		return nil, err
	}
	r.setMemories(m.Memories)
	e.agent.remotes[m.Name] = r
	return r, nil
}

// loadIntoEngine loads a peer into the engine. An engine that has loaded another state of the
// peer must forget that first.
func (e *executor) loadIntoEngine(r *Remote, m *metadata) error {
	name, err := e.engine.LoadPeer(m.Library)
	if err != nil && e.engine.ForgetPeer(r.name) == nil {
		name, err = e.engine.LoadPeer(m.Library)
	}
	if err != nil {
		return err
	}
	if name != r.name {
		err = fmt.Errorf("%w: its parts have two names, %q and %q", ErrMetadata, r.name, name)
		return errors.Join(err, e.engine.ForgetPeer(name))
	}
	r.generation = e.generation
	return nil
}

// ensureLoaded loads a peer into a new engine if only an earlier one has it.
func (e *executor) ensureLoaded(r *Remote) error {
	if err := r.Err(); err != nil {
		return err
	}
	if r.generation == e.generation {
		return nil
	}
	m, err := decodeMetadata(r.data)
	if err == nil {
		err = e.loadIntoEngine(r, m)
	}
	if err != nil {
		return fmt.Errorf("cannot load metadata of %q again: %w", r.name, err)
	}
	return nil
}

// Memories lists the peer's registered memories, by ID. The slice must not be changed.
func (r *Remote) Memories() []RemoteMemory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memories
}

// Memory returns one of the peer's memories.
func (r *Remote) Memory(id uint32) (RemoteMemory, error) {
	list := r.Memories()
	if i := slices.IndexFunc(list, func(m RemoteMemory) bool { return m.ID == id }); i >= 0 {
		return list[i], nil
	}
	return RemoteMemory{}, fmt.Errorf("%w: %d of %q", ErrNoMemory, id, r.name)
}

func (r *Remote) setMemories(list []RemoteMemory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memories = list
}

// Err is the reason why the peer is unusable; nil while it is usable.
func (r *Remote) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Close declares the peer dead or no longer needed. Transfers with it end with an error, and their
// memory is settled as soon as that is safe.
func (r *Remote) Close() { r.fail(ErrClosed) }

func (r *Remote) fail(reason error) {
	r.markFailed(reason)
	r.agent.send(func(e *executor) { e.dropRemote(r) })
}

func (r *Remote) markFailed(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = fmt.Errorf("%w: %q: %w", ErrPeer, r.name, reason)
	}
}

// dropRemote ends all transfers with a failed peer and forgets the peer.
func (e *executor) dropRemote(r *Remote) {
	e.active.failPeer(r)
	e.abandoned.failPeer(r)
	if e.agent.remotes[r.name] == r {
		delete(e.agent.remotes, r.name)
	}
	// The library refuses the status of requests with a forgotten peer, so abandoned transfers
	// keep theirs loaded. A new engine has not loaded the peer at all.
	if r.generation == e.generation && !e.abandoned.hasPeer(r) {
		_ = e.engine.ForgetPeer(r.name) // fails where the engine has forgotten the peer already
	}
}
