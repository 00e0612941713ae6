package sim

import "sync"

// mailbox queues work for a goroutine.
type mailbox struct {
	wake  chan struct{} // Capacity 1: work is queued.
	mu    sync.Mutex
	queue []func()
}

func newMailbox() mailbox { return mailbox{wake: make(chan struct{}, 1)} }

// do queues f.
func (m *mailbox) do(f func()) {
	m.mu.Lock()
	m.queue = append(m.queue, f)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// drain runs the queue.
func (m *mailbox) drain() {
	m.mu.Lock()
	queue := m.queue
	m.queue = nil
	m.mu.Unlock()
	for _, f := range queue {
		f()
	}
}
