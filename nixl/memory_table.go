package nixl

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// memoryTable holds an agent's registered memories and counts their users.
type memoryTable struct {
	mu         sync.Mutex
	lastID     uint32             // guarded by mu, as all below
	registered map[uint32]*Memory // by ID
	unused     []*Memory          // closed, without users: the present executor deregisters them
}

// add enters a memory under a new ID.
func (t *memoryTable) add(m *Memory) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastID++
	m.id = t.lastID
	t.registered[m.id] = m
}

// remove ends a memory's registration and lets its mapping go.
func (t *memoryTable) remove(m *Memory) error {
	t.mu.Lock()
	known := t.registered[m.id] == m
	delete(t.registered, m.id)
	t.mu.Unlock()
	if !known {
		return nil
	}
	return m.mapping.release()
}

func (t *memoryTable) list() []*Memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.registered))
}

// close refuses new users of a memory, and reports whether it has none.
func (t *memoryTable) close(m *Memory) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.closed = true
	return m.users == 0
}

// retain adds a user to a memory. It fails on a closed one.
func (t *memoryTable) retain(m *Memory) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.closed {
		return fmt.Errorf("memory %q: %w", m.name, ErrClosed)
	}
	m.users++
	return nil
}

// retainAll adds a user to all memories, closed ones too.
func (t *memoryTable) retainAll() []*Memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.registered {
		m.users++
	}
	return slices.Collect(maps.Values(t.registered))
}

// release removes a user from each memory, and reports whether a closed one has no user left.
func (t *memoryTable) release(list ...*Memory) (found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range list {
		m.users--
		if m.users == 0 && m.closed {
			t.unused = append(t.unused, m)
			found = true
		}
	}
	return found
}

// takeUnused returns the closed memories without users and empties their list.
func (t *memoryTable) takeUnused() []*Memory {
	t.mu.Lock()
	defer t.mu.Unlock()
	unused := t.unused
	t.unused = nil
	return unused
}
