package nixl

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/warmpath/warmpath/cgo"
)

var (
	// ErrPeer is returned when a peer is dead, or does not answer as a live one does. Load its metadata anew when it is back.
	ErrPeer = errors.New("nixl: peer failed")
	// ErrNoMemory is returned for memory that a peer has not registered.
	ErrNoMemory = errors.New("nixl: peer has no such memory")
)

// Remote is a peer, by the metadata that it gave.
type Remote struct {
	agent *Agent
	name  string

	mu       sync.Mutex
	memories []RemoteMemory // guarded by mu; never changed in place
	failed   error          // guarded by mu; set once

	// What follows belongs to the owner.
	data       []byte // metadata as it came
	generation uint64 // of the engine that knows it
}

// Load makes a peer known, which takes up to 0.3 s over UCX. Newer metadata of a known peer replaces what was known. The peer is not asked
// whether it is there: the first transfer finds out.
func (a *Agent) Load(data []byte) (*Remote, error) {
	m, err := decodeMetadata(data)
	if err != nil {
		return nil, err
	}
	var r *Remote
	if closed := a.do(func(o *owner) { r, err = o.loadRemote(m, bytes.Clone(data)) }); closed != nil {
		return nil, closed
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load metadata of %q: %w", m.name, err)
	}
	return r, nil
}

func (o *owner) loadRemote(m *metadata, data []byte) (*Remote, error) {
	if m.name == o.name {
		return nil, fmt.Errorf("%w: it is this agent's own", ErrMetadata)
	}
	r := o.agent.remotes[m.name]
	if r != nil && r.generation == o.generation && r.Err() == nil && bytes.Equal(r.data, data) {
		return r, nil
	}
	if r == nil || r.Err() != nil {
		r = &Remote{agent: o.agent, name: m.name}
	}
	r.data = data
	if err := o.introduce(r, m); err != nil {
		return nil, err
	}
	r.setMemories(m.memories)
	o.agent.remotes[m.name] = r
	return r, nil
}

// introduce makes a peer known to the engine. An engine that knows another state of it is made to forget that first.
func (o *owner) introduce(r *Remote, m *metadata) error {
	name, err := o.engine.load(m.blob)
	if err != nil && o.engine.invalidate(r.name) == nil {
		name, err = o.engine.load(m.blob)
	}
	if err != nil {
		return err
	}
	if name != r.name {
		return errors.Join(fmt.Errorf("%w: its parts have two names, %q and %q", ErrMetadata, r.name, name), o.engine.invalidate(name))
	}
	r.generation = o.generation
	return nil
}

// known makes sure that the engine knows a peer that an earlier one knew.
func (o *owner) known(r *Remote) error {
	if err := r.Err(); err != nil {
		return err
	}
	if r.generation == o.generation {
		return nil
	}
	m, err := decodeMetadata(r.data)
	if err == nil {
		err = o.introduce(r, m)
	}
	if err != nil {
		return fmt.Errorf("cannot load metadata of %q again: %w", r.name, err)
	}
	return nil
}

// Name is the peer's name, another one for each of its generations.
func (r *Remote) Name() string { return r.name }

// Memories lists what the peer has registered, by ID. The slice must not be changed.
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

// Err says why the peer is of no use any more; nil while it is.
func (r *Remote) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Fail tells that the peer is dead, as far as the caller knows: its lease ended, its process is gone, or it will not be used again. Transfers with it end
// with the reason, and their memory is settled as soon as that is safe.
func (r *Remote) Fail(reason error) {
	r.markFailed(reason)
	r.agent.send(func(o *owner) { o.dropRemote(r) })
}

// Close is Fail without a fault.
func (r *Remote) Close() { r.Fail(ErrClosed) }

func (r *Remote) markFailed(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		r.failed = fmt.Errorf("%w: %q: %w", ErrPeer, r.name, reason)
	}
}

// dropRemote ends all that goes on with a failed peer.
func (o *owner) dropRemote(r *Remote) {
	for _, t := range slices.Clone(o.active) {
		if t.remote == r {
			o.fail(t, r.Err(), true)
		}
	}
	o.quarantine.peerIsDead(r)
	if o.agent.remotes[r.name] == r {
		delete(o.agent.remotes, r.name)
	}
	// Requests in quarantine are asked for their status until they end; the library refuses that for a peer that it does not know. The
	// handover to a new engine forgets the peer too.
	if r.generation == o.generation && !o.quarantine.holds(r) {
		_ = o.engine.invalidate(r.name) // an engine that has forgotten it already says so
	}
}

// Notify sends a message to the peer, outside of any transfer. That it was sent does not say that it came.
func (r *Remote) Notify(message []byte) error {
	var err error
	closed := r.agent.do(func(o *owner) {
		if err = o.known(r); err == nil {
			err = o.engine.notify(r.name, message)
		}
	})
	if closed != nil {
		return closed
	}
	if err != nil {
		return fmt.Errorf("cannot notify %q: %w", r.name, err)
	}
	return nil
}

// Note is a message from a peer.
type Note = cgo.Note
