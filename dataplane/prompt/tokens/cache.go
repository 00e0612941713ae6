package tokens

import (
	"container/list"
	"sync"
	"unsafe"
)

// entryBytes is the cost of an entry beside its prompt: itself, its place in the list, and its slot
// in a map that is half full on average.
const entryBytes = int64(unsafe.Sizeof(entry{})+unsafe.Sizeof(list.Element{})) + 2*int64(unsafe.Sizeof(key{})+unsafe.Sizeof(uintptr(0)))

// cache remembers prompts by key; the least recently used ones go. A hit holds its lock for some
// 50 ns, far less than the rest of a request.
type cache struct {
	mu      sync.Mutex
	max     int64
	bytes   int64          // guarded by mu, like all below
	entries map[key]*entry // those that are being fetched too
	recent  list.List      // of *entry, the latest used in front; only remembered ones
	evicted uint64
}

// entry is a prompt that is being fetched, or a remembered one.
type entry struct {
	key    key
	prompt Prompt        // shared with callers; never written
	shared *sharedFetch  // nil once it is remembered
	at     *list.Element // nil while it is being fetched
}

func (e *entry) bytes() int64 { return entryBytes + e.prompt.bytes() }

func (p Prompt) bytes() int64 { return 4*int64(cap(p.IDs)) + 8*int64(cap(p.Hashes)) }

// sharedFetch is a fetch that others wait for. prompt and err are set before done closes.
type sharedFetch struct {
	done    chan struct{}
	waiting int // guarded by the cache's lock
	prompt  Prompt
	err     error
}

func (c *cache) init(limit int64) {
	c.max = limit
	c.entries = make(map[key]*entry)
	c.recent.Init()
}

// lookup returns the prompt, or the fetch to wait for, or the entry that the caller must fetch and
// finish.
func (c *cache) lookup(k key) (p Prompt, f *sharedFetch, mine *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	switch {
	case !ok:
		e = &entry{key: k, shared: &sharedFetch{done: make(chan struct{})}}
		c.entries[k] = e
		return Prompt{}, nil, e
	case e.shared != nil:
		e.shared.waiting++
		return Prompt{}, e.shared, nil
	}
	c.recent.MoveToFront(e.at)
	e.prompt.memory.addReferences(1)
	return e.prompt, nil, nil
}

// finish ends the fetch of an entry and remembers its prompt.
func (c *cache) finish(e *entry, p Prompt, err error) {
	c.mu.Lock()
	f := e.shared
	p.memory.addReferences(f.waiting)
	if e.shared, e.prompt = nil, p; err == nil && e.bytes() <= c.max {
		p.memory.addReferences(1)
		e.at = c.recent.PushFront(e)
		c.bytes += e.bytes()
		c.shrinkLocked()
	} else {
		delete(c.entries, e.key)
	}
	c.mu.Unlock()
	f.prompt, f.err = p, err
	close(f.done)
}

// renew replaces a remembered prompt, unless it has been evicted.
func (c *cache) renew(k key, p Prompt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[k]; ok && e.shared == nil {
		c.bytes += p.bytes() - e.prompt.bytes()
		e.prompt = p
		c.shrinkLocked()
	}
}

// shrinkLocked evicts the oldest entries until all fit.
func (c *cache) shrinkLocked() {
	for c.bytes > c.max {
		e := c.recent.Remove(c.recent.Back()).(*entry)
		c.bytes -= e.bytes()
		c.evicted++
		e.prompt.Release()
		delete(c.entries, e.key)
	}
}

func (c *cache) addStats(st *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Entries, st.Bytes, st.Evicted = c.recent.Len(), c.bytes, c.evicted
}
