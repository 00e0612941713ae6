package radix

import (
	"container/list"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Domain is an interned [DomainKey]. Chains of different domains never meet.
//
// It is a slot and the number of domains that had the slot before, so the id of a freed domain
// never means another key.
//
//	63     32 31      0
//	[ before ] [ slot ]
type Domain uint64

// DomainKey has all that keeps equal tokens from being equal blocks.
type DomainKey struct {
	Model     string
	BlockSize int    // tokens
	LoRA      string // adapter name; empty for the base model
	Salt      string // cache salt of a tenant; empty for the shared cache
	Bigram    bool   // EAGLE pages, whose tokens are pairs
}

// maxIdleDomains bounds the domains without blocks, some 0.7 KB each. They stay for a while, so
// that a tenant whose blocks come and go does not intern a new domain each time.
const maxIdleDomains = 1024

// domainTable maps keys to domains, and domains to the roots of their chains. Both look-ups
// take no lock.
type domainTable struct {
	seed    maphash.Seed
	runIDs  *atomic.Uint64                              // of the tree
	buckets atomic.Pointer[[]atomic.Pointer[[]*domain]] // by key hash; replaced under mu
	slots   atomic.Pointer[[]domainSlot]                // replaced under mu, as are its words
	live    atomic.Int64
	bytes   atomic.Int64

	mu   sync.Mutex
	free []Domain   // ids for new domains; guarded by mu
	idle *list.List // of *domain, the longest idle in front; some have blocks again; guarded by mu
}

// domainSlot is what look-ups read of a domain. It has no view while the slot is free.
type domainSlot struct {
	view   atomic.Pointer[runView]
	domain atomic.Pointer[domain]
}

type domain struct {
	id     Domain
	key    DomainKey
	hash   uint64
	root   *run
	queued *list.Element // in domainTable.idle, or nil; guarded by domainTable.mu
}

func (t *domainTable) init(runIDs *atomic.Uint64) {
	t.seed = maphash.MakeSeed()
	t.runIDs = runIDs
	t.idle = list.New()
	t.buckets.Store(new(make([]atomic.Pointer[[]*domain], 1)))
	t.slots.Store(new([]domainSlot))
}

// find returns the domain of a key, or nil.
func (t *domainTable) find(k *DomainKey) *domain {
	buckets := *t.buckets.Load()
	b := buckets[maphash.Comparable(t.seed, *k)&uint64(len(buckets)-1)].Load()
	if b == nil {
		return nil
	}
	for _, d := range *b {
		if d.key == *k {
			return d
		}
	}
	return nil
}

// slot returns the slot of a domain, or nil.
func (t *domainTable) slot(id Domain) *domainSlot {
	slots := *t.slots.Load()
	i := uint32(id)
	if uint64(i) >= uint64(len(slots)) {
		return nil
	}
	return &slots[i]
}

// root returns the view of the empty run where a domain's chains start, or nil.
func (t *domainTable) root(id Domain) *runView {
	s := t.slot(id)
	if s == nil {
		return nil
	}
	// The view of a root has its domain in place of a parent.
	if v := s.view.Load(); v != nil && v.parent == uint64(id) {
		return v
	}
	return nil
}

// key returns the key of a domain that has blocks.
func (t *domainTable) key(id Domain) DomainKey { return t.slot(id).domain.Load().key }

// all calls f for the domains in the order of their slots.
func (t *domainTable) all(f func(*domain)) {
	slots := *t.slots.Load()
	for i := range slots {
		if d := slots[i].domain.Load(); d != nil {
			f(d)
		}
	}
}

// intern returns the domain of a key, made if missing.
func (t *domainTable) intern(k DomainKey) Domain {
	if d := t.find(&k); d != nil {
		return d.id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.find(&k); d != nil {
		return d.id
	}
	d := &domain{id: t.takeIDLocked(), key: k, hash: maphash.Comparable(t.seed, k)}
	d.root = newRun(t.runIDs.Add(1), d.id, nil, 0, nil, nil)
	s := t.slot(d.id)
	s.domain.Store(d)
	s.view.Store(d.root.view.Load())
	t.insertLocked(d)
	t.bytes.Add(d.byteSize())
	d.queued = t.idle.PushBack(d)
	t.freeIdleLocked()
	return d.id
}

// takeIDLocked returns the id of a free slot.
func (t *domainTable) takeIDLocked() Domain {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	old := *t.slots.Load()
	if len(old) == cap(old) {
		// Look-ups continue on the old slots, and miss only domains that are new or gone.
		grown := make([]domainSlot, len(old), 2*len(old)+8)
		for i := range old {
			grown[i].view.Store(old[i].view.Load())
			grown[i].domain.Store(old[i].domain.Load())
		}
		old = grown
	}
	slots := old[:len(old)+1]
	t.slots.Store(&slots)
	return Domain(len(old))
}

// insertLocked makes d known. At most four domains a bucket keep the copying small.
func (t *domainTable) insertLocked(d *domain) {
	if n := len(*t.buckets.Load()); int(t.live.Add(1)) > 4*n {
		t.resizeLocked(2 * n)
	}
	buckets := *t.buckets.Load()
	b := &buckets[d.hash&uint64(len(buckets)-1)]
	var all []*domain
	if old := b.Load(); old != nil {
		all = *old
	}
	b.Store(new(append(slices.Clip(all), d)))
}

// removeLocked makes d unknown.
func (t *domainTable) removeLocked(d *domain) {
	buckets := *t.buckets.Load()
	b := &buckets[d.hash&uint64(len(buckets)-1)]
	b.Store(new(slices.DeleteFunc(slices.Clone(*b.Load()), func(o *domain) bool { return o == d })))
	if n := len(buckets); int(t.live.Add(-1)) < n/2 {
		t.resizeLocked(n / 2)
	}
}

func (t *domainTable) resizeLocked(n int) {
	fresh := make([][]*domain, n)
	old := *t.buckets.Load()
	for i := range old {
		if b := old[i].Load(); b != nil {
			for _, d := range *b {
				at := &fresh[d.hash&uint64(n-1)]
				*at = append(*at, d)
			}
		}
	}
	buckets := make([]atomic.Pointer[[]*domain], n)
	for i := range fresh {
		buckets[i].Store(&fresh[i])
	}
	t.buckets.Store(&buckets)
}

// markIdle queues the domain of a root that has lost its last chain. No run is locked.
func (t *domainTable) markIdle(root *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.slot(root.domain).domain.Load()
	if d == nil || d.root != root {
		return // freed meanwhile
	}
	if d.queued != nil {
		t.idle.MoveToBack(d.queued)
		return
	}
	d.queued = t.idle.PushBack(d)
	t.freeIdleLocked()
}

// freeIdleLocked frees the longest idle domains beyond maxIdleDomains. A domain that has got
// blocks leaves the queue, and comes back when it loses them.
func (t *domainTable) freeIdleLocked() {
	for t.idle.Len() > maxIdleDomains {
		d := t.idle.Remove(t.idle.Front()).(*domain)
		d.queued = nil
		if !d.root.closeRoot() {
			continue
		}
		t.removeLocked(d)
		s := t.slot(d.id)
		s.view.Store(nil)
		s.domain.Store(nil)
		if next := d.id + 1<<32; next > d.id { // else the slot's ids are used up
			t.free = append(t.free, next)
		}
		t.bytes.Add(-d.byteSize())
	}
}

// byteSize returns the bytes of a domain, which never change.
func (d *domain) byteSize() int64 {
	const bucketShare = 48
	const slot = int64(unsafe.Sizeof(domainSlot{}) + unsafe.Sizeof(list.Element{}))
	const each = int64(unsafe.Sizeof(domain{})) + slot + bucketShare
	return each + d.root.byteSize() + int64(len(d.key.Model)+len(d.key.LoRA)+len(d.key.Salt))
}
