package tokens

import (
	"sync"
	"unsafe"
)

const (
	// shardCount keeps the lock of a hit apart on the largest router: a hit holds it for some 50 ns,
	// so 16 shards carry far more hits than one process takes requests.
	shardCount = 16
	// entryBytes is what an entry costs beside its prompt: itself, and its slot in a map that is
	// half full on average.
	entryBytes = int64(unsafe.Sizeof(entry{})) + 2*int64(unsafe.Sizeof(key{})+unsafe.Sizeof(uintptr(0)))
	cacheLine  = 64
)

// entry is a remembered prompt and its place in the list of recent use.
type entry struct {
	key        key
	prompt     Prompt // shared with callers; never written
	prev, next *entry
}

func (e *entry) bytes() int64 { return entryBytes + e.prompt.bytes() }

func (p Prompt) bytes() int64 { return 4*int64(cap(p.IDs)) + 8*int64(cap(p.Hashes)) }

// flight is a fetch that others may wait for. prompt and err are set before done closes.
type flight struct {
	done   chan struct{}
	prompt Prompt
	err    error
}

// shard is a part of the cache with its own lock and its own share of the bytes.
type shard struct {
	mu      sync.Mutex
	max     int64
	bytes   int64          // guarded by mu, like all below
	entries map[key]*entry // by key
	flights map[key]*flight
	recent  entry // sentinel of a ring: next is the latest used, prev the oldest
	evicted uint64
	_       [3*cacheLine - 136]byte // fills three lines, so that two shards' locks never share one
}

func (s *Source) shardOf(k key) *shard { return &s.shards[k.hi>>60&(shardCount-1)] }

func (sh *shard) init(limit int64) {
	sh.max = limit
	sh.entries = make(map[key]*entry)
	sh.flights = make(map[key]*flight)
	sh.recent.prev, sh.recent.next = &sh.recent, &sh.recent
}

// lookup returns the prompt, or the flight to wait for; first says that the caller must fetch and
// finish it.
func (sh *shard) lookup(k key) (p Prompt, f *flight, first bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.entries[k]; ok {
		e.unlink()
		e.linkAfter(&sh.recent)
		return e.prompt, nil, false
	}
	if f, ok := sh.flights[k]; ok {
		return Prompt{}, f, false
	}
	f = &flight{done: make(chan struct{})}
	sh.flights[k] = f
	return Prompt{}, f, true
}

// finish ends a flight and remembers what it brought.
func (sh *shard) finish(k key, f *flight, p Prompt, err error) {
	f.prompt, f.err = p, err
	sh.mu.Lock()
	delete(sh.flights, k)
	if err == nil {
		sh.addLocked(&entry{key: k, prompt: p})
	}
	sh.mu.Unlock()
	close(f.done)
}

// renew replaces what is remembered of a prompt, where it still is.
func (sh *shard) renew(k key, p Prompt) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[k]
	if !ok {
		return
	}
	sh.bytes += p.bytes() - e.prompt.bytes()
	e.prompt = p
	sh.shrinkLocked()
}

// addLocked enters e and lets the oldest go until all fit. What alone is above the bound stays out.
func (sh *shard) addLocked(e *entry) {
	if e.bytes() > sh.max {
		return
	}
	sh.entries[e.key] = e
	e.linkAfter(&sh.recent)
	sh.bytes += e.bytes()
	sh.shrinkLocked()
}

// shrinkLocked lets the oldest go until all fit.
func (sh *shard) shrinkLocked() {
	for sh.bytes > sh.max {
		old := sh.recent.prev
		old.unlink()
		delete(sh.entries, old.key)
		sh.bytes -= old.bytes()
		sh.evicted++
	}
}

func (sh *shard) addStats(st *Stats) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st.Entries += len(sh.entries)
	st.Bytes += sh.bytes
	st.Evicted += sh.evicted
}

func (e *entry) unlink() {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

func (e *entry) linkAfter(p *entry) {
	e.prev, e.next = p, p.next
	p.next.prev, p.next = e, e
}
