package tokens

import (
	"sync"
	"unsafe"
)

const (
	// shardCount keeps the lock of a hit apart on the largest router: a hit holds it for some 50 ns,
	// so 16 shards carry far more hits than one process takes requests.
	shardCount = 16
	// entryBytes is what an entry costs beside its ids: itself, and its slot in a map that is
	// half full on average.
	entryBytes = int64(unsafe.Sizeof(entry{})) + 2*int64(unsafe.Sizeof(key{})+unsafe.Sizeof(uintptr(0)))
	cacheLine  = 64
)

// entry is a remembered prompt and its place in the list of recent use.
type entry struct {
	key        key
	ids        []uint32 // shared with callers; never written
	prev, next *entry
}

func (e *entry) bytes() int64 { return entryBytes + 4*int64(cap(e.ids)) }

// flight is a fetch that others may wait for. ids and err are set before done closes.
type flight struct {
	done chan struct{}
	ids  []uint32
	err  error
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
	_       [2*cacheLine - 104]byte // fills two lines, so that two shards' locks never share one
}

func (s *Source) shardOf(k key) *shard { return &s.shards[k.hi>>60&(shardCount-1)] }

func (sh *shard) init(limit int64) {
	sh.max = limit
	sh.entries = make(map[key]*entry)
	sh.flights = make(map[key]*flight)
	sh.recent.prev, sh.recent.next = &sh.recent, &sh.recent
}

// lookup returns the ids, or the flight to wait for; first says that the caller must fetch and
// finish it.
func (sh *shard) lookup(k key) (ids []uint32, f *flight, first bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e, ok := sh.entries[k]; ok {
		e.unlink()
		e.linkAfter(&sh.recent)
		return e.ids, nil, false
	}
	if f, ok := sh.flights[k]; ok {
		return nil, f, false
	}
	f = &flight{done: make(chan struct{})}
	sh.flights[k] = f
	return nil, f, true
}

// finish ends a flight and remembers what it brought.
func (sh *shard) finish(k key, f *flight, ids []uint32, err error) {
	f.ids, f.err = ids, err
	sh.mu.Lock()
	delete(sh.flights, k)
	if err == nil {
		sh.addLocked(&entry{key: k, ids: ids})
	}
	sh.mu.Unlock()
	close(f.done)
}

// addLocked enters e and lets the oldest go until all fit. What alone is above the bound stays out.
func (sh *shard) addLocked(e *entry) {
	if e.bytes() > sh.max {
		return
	}
	sh.entries[e.key] = e
	e.linkAfter(&sh.recent)
	sh.bytes += e.bytes()
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
