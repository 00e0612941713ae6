package tokens

import (
	"sync"
	"unsafe"
)

const (
	// shardCount spreads hits over locks: a hit holds one for some 50 ns, so 16 shards carry far
	// more hits than one process takes requests.
	shardCount = 16
	// entryBytes is the cost of an entry beside its prompt: itself, and its slot in a map that is
	// half full on average.
	entryBytes = int64(unsafe.Sizeof(entry{})) + 2*int64(unsafe.Sizeof(key{})+unsafe.Sizeof(uintptr(0)))
	cacheLine  = 64

	// singleUseShare is the part of the memory, one in so many, for prompts that came once. Most
	// never come again, since each turn of a conversation is another text. Prompts that come again,
	// even after they were forgotten, may have all (a segmented LRU: Karedla, Love and Wherry
	// 1994).
	singleUseShare = 16
	// seenMarks is the number of keys that a shard remembers after their prompts were evicted: 4
	// KiB of marks, 16,384 prompts in all.
	seenMarks = 1024
)

// entry is a prompt that is being fetched, or a remembered one in one of two lists of recent use.
type entry struct {
	key        key
	prompt     Prompt // shared with callers; never written
	fetching   bool
	shared     *sharedFetch // nil: nobody else waits for the fetch
	reused     bool         // came more than once
	prev, next *entry
}

func (e *entry) bytes() int64 { return entryBytes + e.prompt.bytes() }

func (p Prompt) bytes() int64 { return 4*int64(cap(p.IDs)) + 8*int64(cap(p.Hashes)) }

// sharedFetch is a fetch that others wait for. prompt and err are set before done closes.
type sharedFetch struct {
	done    chan struct{}
	waiting int // guarded by the shard's lock
	prompt  Prompt
	err     error
}

// shard is a part of the cache with its own lock and its own share of the bytes.
type shard struct {
	mu             sync.Mutex
	max            int64
	bytes          int64          // guarded by mu, like all below
	singleUseBytes int64          // bytes of prompts that came once
	entries        map[key]*entry // by key, those that are being fetched too
	fetching       int            // of entries
	spare          *entry         // the last one that was dropped, for the next; nil: there is none
	// Sentinel of a ring of prompts that came again: next is the latest used, prev the oldest.
	reused    entry
	singleUse entry // the same of prompts that came once
	evicted   uint64
	seen      [seenMarks]uint32    // marks of keys that came
	_         [cacheLine + 16]byte // so that two shards' locks never share a line
}

func (sh *shard) init(limit int64) {
	sh.max = limit
	sh.entries = make(map[key]*entry)
	sh.reused.prev, sh.reused.next = &sh.reused, &sh.reused
	sh.singleUse.prev, sh.singleUse.next = &sh.singleUse, &sh.singleUse
}

// lookup returns the prompt, or the fetch to wait for, or the entry that the caller must fetch and
// finish.
func (sh *shard) lookup(k key) (p Prompt, f *sharedFetch, mine *entry) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[k]
	switch {
	case ok && e.fetching:
		if e.shared == nil {
			e.shared = &sharedFetch{done: make(chan struct{})}
		}
		e.shared.waiting++
		return Prompt{}, e.shared, nil
	case ok:
		e.unlink()
		e.linkAfter(&sh.reused)
		if !e.reused {
			e.reused = true
			sh.singleUseBytes -= e.bytes()
		}
		e.prompt.memory.addReferences(1)
		return e.prompt, nil, nil
	}
	if e, sh.spare = sh.spare, nil; e == nil {
		e = new(entry)
	}
	e.key, e.fetching = k, true
	sh.entries[k] = e
	sh.fetching++
	return Prompt{}, nil, e
}

// finish ends the fetch of an entry and remembers its prompt.
func (sh *shard) finish(e *entry, p Prompt, err error) {
	sh.mu.Lock()
	f := e.shared
	e.fetching, e.shared = false, nil
	sh.fetching--
	if f != nil {
		p.memory.addReferences(f.waiting)
	}
	if e.prompt = p; err == nil && e.bytes() <= sh.max {
		sh.addLocked(e)
	} else {
		sh.forgetLocked(e)
	}
	sh.mu.Unlock()
	if f != nil {
		f.prompt, f.err = p, err
		close(f.done)
	}
}

// renew replaces a remembered prompt, unless it has been evicted.
func (sh *shard) renew(k key, p Prompt) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, ok := sh.entries[k]
	if !ok || e.fetching {
		return
	}
	more := p.bytes() - e.prompt.bytes()
	sh.bytes += more
	if !e.reused {
		sh.singleUseBytes += more
	}
	e.prompt = p
	sh.shrinkLocked()
}

// addLocked adds e, which is not larger than the bound, to its list, and evicts the oldest entries
// until all fit.
func (sh *shard) addLocked(e *entry) {
	e.prompt.memory.addReferences(1)
	sh.bytes += e.bytes()
	if e.reused = sh.seenBeforeLocked(e.key); e.reused {
		e.linkAfter(&sh.reused)
	} else {
		e.linkAfter(&sh.singleUse)
		sh.singleUseBytes += e.bytes()
	}
	sh.shrinkLocked()
}

// seenBeforeLocked reports whether a key came before, as far as marks remain, and marks it.
func (sh *shard) seenBeforeLocked(k key) bool {
	at, mark := &sh.seen[k.hi%seenMarks], uint32(k.hi>>24)|1
	came := *at == mark
	*at = mark
	return came
}

// shrinkLocked evicts the oldest entries until all fit; at least one that came once may stay.
func (sh *shard) shrinkLocked() {
	for sh.singleUseBytes > sh.max/singleUseShare && sh.singleUse.prev != sh.singleUse.next {
		sh.dropLocked(sh.singleUse.prev)
	}
	for sh.bytes > sh.max {
		old := sh.reused.prev
		if old == &sh.reused {
			old = sh.singleUse.prev
		}
		sh.dropLocked(old)
	}
}

func (sh *shard) dropLocked(e *entry) {
	e.unlink()
	sh.bytes -= e.bytes()
	if !e.reused {
		sh.singleUseBytes -= e.bytes()
	}
	sh.evicted++
	e.prompt.Release()
	sh.forgetLocked(e)
}

// forgetLocked frees an entry that is in no list.
func (sh *shard) forgetLocked(e *entry) {
	delete(sh.entries, e.key)
	*e = entry{}
	sh.spare = e
}

func (sh *shard) addStats(st *Stats) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st.Entries += len(sh.entries) - sh.fetching
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
