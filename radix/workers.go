package radix

import (
	"sync"
	"sync/atomic"
)

// Worker is the id of a holder of blocks: one data-parallel rank, or one group of KV layers of it.
// Ids are dense; an id is reused only when all blocks of its last owner are gone. Predictions have
// numbers of their own, see [Index.Predict].
type Worker uint32

// workerTable has the workers by id. Reading it takes no lock.
type workerTable struct {
	mu    sync.Mutex
	free  []Worker                  // ids to reuse; guarded by mu
	table atomic.Pointer[[]*worker] // by id, nil where free; replaced under mu
}

func (t *workerTable) init() { t.table.Store(&[]*worker{}) }

// list returns the workers by id, nil where an id is free.
func (t *workerTable) list() []*worker { return *t.table.Load() }

// get returns the present owner of an id, or nil.
func (t *workerTable) get(id Worker) *worker {
	list := t.list()
	if uint64(id) >= uint64(len(list)) {
		return nil
	}
	return list[id]
}

// lock returns the owner of an id with its lock held, or nil.
func (t *workerTable) lock(id Worker) *worker {
	w := t.get(id)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	if w.removed {
		w.mu.Unlock()
		return nil
	}
	return w
}

// add returns a new worker. It copies the table, which look-ups read: workers come and go a few
// times a minute.
func (t *workerTable) add(total *atomic.Int64) Worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.list()
	table := make([]*worker, len(old), len(old)+1)
	copy(table, old)
	var id Worker
	if n := len(t.free); n > 0 {
		id = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		id = Worker(len(table))
		if id == maxWorkers {
			//nolint:forbidigo // ids leak
			panic("radix: more than a million workers")
		}
		table = append(table, nil)
	}
	w := &worker{id: id, total: total}
	w.mu.Lock()
	w.unlock()
	table[id] = w
	t.table.Store(&table)
	return id
}

// remove takes a worker out and returns it, or nil. Its id stays taken until release.
func (t *workerTable) remove(id Worker) *worker {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.get(id)
	if w == nil {
		return nil
	}
	table := append([]*worker(nil), t.list()...)
	table[id] = nil
	t.table.Store(&table)
	return w
}

// release makes the id of a removed worker free.
func (t *workerTable) release(id Worker) {
	t.mu.Lock()
	t.free = append(t.free, id)
	t.mu.Unlock()
}
