package radix

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// worker is one owner of an id. The next owner of the id is another worker, so a late writer
// cannot write into it.
type worker struct {
	id Worker

	mu       sync.Mutex
	removed  bool // guarded by mu, as is all below but the atomics
	entries  entryTable
	listed   int // engine hashes held as listed copies
	holdings holdings
	aliases  map[uint64]*alias // by engine hash; mostly nil
	deferred []deferredChange  // of one call

	partial atomic.Bool   // see Index.Partial; written under mu
	sizes   workerSizes   // written under mu
	total   *atomic.Int64 // bytes of the index
}

// workerSizes are published when a writer unlocks the worker.
type workerSizes struct {
	hashes   atomic.Int64 // engine hashes held
	holdings atomic.Int64
	bytes    atomic.Int64
	room     atomic.Int64 // entries that fit before the entry table grows
	doubling atomic.Int64 // bytes that it grows by then
}

// blockRef is a block that a worker holds, with some of its copies. Without a holding it refers
// to no block.
type blockRef struct {
	holding *holding
	offset  uint32
	copies  copies
}

// entry returns the entry of an engine hash that has these copies.
func (b *blockRef) entry(key uint64) entry {
	return entry{key: key, handle: b.holding.handle, offset: b.offset, copies: b.copies}
}

// deferredChange is a change of a holding whose run was not locked when the writer came to it:
// a writer locks one run at a time.
type deferredChange struct {
	holding       *holding
	offset        uint32
	pin           bool
	unpin         bool
	moveToEntries bool // before all others
	remove        [tiers]bool
}

// maxDeferred bounds the scratch memory that stays after a call: deferred changes are rare.
const maxDeferred = 1024

// unlock publishes the sizes and unlocks.
func (w *worker) unlock() {
	s := &w.sizes
	publish(&s.hashes, int64(w.entries.len+w.listed))
	publish(&s.holdings, int64(w.holdings.count()))
	slots := int64(len(w.entries.slots))
	publish(&s.room, slots*3/4-int64(w.entries.len))
	publish(&s.doubling, slots*entryBytes)
	if size, was := w.byteSize(), s.bytes.Load(); size != was {
		s.bytes.Store(size)
		w.total.Add(size - was)
	}
	w.mu.Unlock()
}

// publish stores v if it has changed: most sizes have not, and a store costs several loads.
func publish(to *atomic.Int64, v int64) {
	if to.Load() != v {
		to.Store(v)
	}
}

// byteSize returns the bytes of a worker with all that it holds, its runs excluded.
func (w *worker) byteSize() int64 {
	if w.removed {
		return 0
	}
	const deferredBytes = int64(unsafe.Sizeof(deferredChange{}))
	return workerBytes + w.holdings.byteSize() + int64(len(w.entries.slots))*entryBytes +
		int64(len(w.aliases))*aliasBytes + int64(cap(w.deferred))*deferredBytes
}

// on returns the worker's holding on a run, or nil.
func (w *worker) on(r *run) *holding { return w.holdings.on(r, w.id) }

// ref returns the block of an entry that is not aliased.
func (w *worker) ref(e *entry) blockRef {
	return blockRef{holding: w.holdings.list[e.handle], offset: e.offset, copies: e.copies}
}

// findListed returns the block that the worker holds as a listed copy of an engine hash.
func (w *worker) findListed(t *blockTable, engineHash uint64) blockRef {
	if w.listed == 0 {
		return blockRef{}
	}
	r, offset := t.find(engineHash)
	if r == nil {
		return blockRef{}
	}
	h := w.on(r)
	if h == nil {
		return blockRef{}
	}
	if n := h.listedCopies(offset); n != (copies{}) {
		return blockRef{holding: h, offset: offset, copies: n}
	}
	return blockRef{}
}

// forget drops all that the worker holds and returns its holdings, which are still in their
// runs.
func (w *worker) forget() []*holding {
	list := w.holdings.list
	w.entries, w.holdings, w.aliases, w.listed = entryTable{}, holdings{}, nil, 0
	w.partial.Store(false)
	return list
}
