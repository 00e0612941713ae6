package tokens

import (
	"sync"
	"unsafe"
)

// entryBytes is the cost of an entry beside its prompt: itself, and its slot in a map that is half
// full on average.
const entryBytes = int64(unsafe.Sizeof(entry{})) + 2*int64(unsafe.Sizeof(key{})+unsafe.Sizeof(uintptr(0)))

// seenMarks is the number of keys of which it is remembered that they came: 256 KiB of marks, for
// the 100,000 prompts of 300 B that fit into the default bound.
const seenMarks = 1 << 17

// cache remembers the prompts that came twice, by key; the least recently used ones go. Most
// prompts never come again, since each turn of a conversation is another text: they would fill it.
// A hit holds its lock for some 50 ns, far less than the rest of a request.
type cache struct {
	mu      sync.Mutex
	max     int64
	bytes   int64          // guarded by mu, like all below
	entries map[key]*entry // those that are being fetched too
	recent  entry          // of a ring of remembered ones: next is the latest used, prev the oldest
	count   int            // of the ring
	seen    []uint16       // marks of the keys that came
	evicted uint64
}

// entry is a prompt that is being fetched, or a remembered one.
type entry struct {
	key        key
	prompt     Prompt       // shared with callers; never written
	shared     *sharedFetch // nil: nobody else waits for the fetch
	prev, next *entry       // nil while it is being fetched
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
	c.seen = make([]uint16, seenMarks)
	c.recent.prev, c.recent.next = &c.recent, &c.recent
}

// lookup returns the prompt, or the fetch to wait for, or the entry that the caller must fetch and
// finish.
func (c *cache) lookup(k key) (p Prompt, f *sharedFetch, mine *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[k]
	switch {
	case !ok:
		e = &entry{key: k}
		c.entries[k] = e
		return Prompt{}, nil, e
	case e.next == nil:
		if e.shared == nil {
			e.shared = &sharedFetch{done: make(chan struct{})}
		}
		e.shared.waiting++
		return Prompt{}, e.shared, nil
	}
	e.unlink()
	e.link(&c.recent)
	e.prompt.memory.addReferences(1)
	return e.prompt, nil, nil
}

// finish ends the fetch of an entry, and remembers its prompt if it came before or others wait for
// it.
func (c *cache) finish(e *entry, p Prompt, err error) {
	c.mu.Lock()
	f := e.shared
	if f != nil {
		p.memory.addReferences(f.waiting)
	}
	again := err == nil && c.seenBeforeLocked(e.key) || f != nil
	if e.shared, e.prompt = nil, p; err == nil && again && e.bytes() <= c.max {
		p.memory.addReferences(1)
		e.link(&c.recent)
		c.count++
		c.bytes += e.bytes()
		c.shrinkLocked()
	} else {
		delete(c.entries, e.key)
	}
	c.mu.Unlock()
	if f != nil {
		f.prompt, f.err = p, err
		close(f.done)
	}
}

// seenBeforeLocked reports whether a key came before, as far as marks remain, and marks it.
func (c *cache) seenBeforeLocked(k key) bool {
	at, mark := &c.seen[k.hi%seenMarks], uint16(k.lo)|1 // of an empty place it is 0
	came := *at == mark
	*at = mark
	return came
}

// renew replaces a remembered prompt, unless it has been evicted.
func (c *cache) renew(k key, p Prompt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[k]; ok && e.next != nil {
		c.bytes += p.bytes() - e.prompt.bytes()
		e.prompt = p
		c.shrinkLocked()
	}
}

// shrinkLocked evicts the oldest entries until all fit.
func (c *cache) shrinkLocked() {
	for c.bytes > c.max {
		e := c.recent.prev
		e.unlink()
		c.count--
		c.bytes -= e.bytes()
		c.evicted++
		e.prompt.Release()
		delete(c.entries, e.key)
	}
}

func (c *cache) addStats(st *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st.Entries, st.Bytes, st.Evicted = c.count, c.bytes, c.evicted
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

// link puts e behind at.
func (e *entry) link(at *entry) {
	e.prev, e.next = at, at.next
	at.next.prev, at.next = e, e
}
