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
// It is the slot of its root and how many domains had that slot before, so one that was freed never comes to mean another key.
//
//	63     32 31      0
//	[ before ] [ slot ]
type Domain uint64

// DomainKey is all that keeps equal tokens from being equal blocks.
type DomainKey struct {
	Model     string
	BlockSize int    // tokens
	LoRA      string // adapter name; empty for the base model
	Salt      string // cache salt of a tenant; empty for the shared cache
	Bigram    bool   // EAGLE pages, whose tokens are pairs
}

// maxIdleDomains is how many domains without blocks are kept: a tenant whose blocks come and go should not make a new one each time. They
// take some 0.7 KB each.
const maxIdleDomains = 1024

// domains are those that chains can be stored in. Look-ups of keys and of roots take no lock.
type domains struct {
	seed    maphash.Seed
	buckets atomic.Pointer[[]atomic.Pointer[[]*domain]] // by the key's hash; a bucket is replaced under mu
	roots   atomic.Pointer[[]root]                      // by slot; replaced under mu, as are its words
	live    atomic.Int64

	mu   sync.Mutex
	free []Domain   // to hand out; guarded by mu
	line *list.List // of *domain: all without blocks and some with, those that lost their last block longest ago in front; guarded by mu
}

// root is what the words of a slot say: no face if the slot is free.
type root struct {
	face   atomic.Pointer[face]
	domain atomic.Pointer[domain]
}

type domain struct {
	id   Domain
	key  DomainKey
	hash uint64
	root *run
	wait *list.Element // in the line; nil if not there. Guarded by domains.mu
}

func (t *domains) init() {
	t.seed = maphash.MakeSeed()
	t.line = list.New()
	t.buckets.Store(new(make([]atomic.Pointer[[]*domain], 1)))
	t.roots.Store(new([]root))
}

// find returns the domain of a key, or nil.
func (t *domains) find(k *DomainKey) *domain {
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

// at returns what is at the slot of a domain, or nil.
func (t *domains) at(id Domain) *root {
	roots := *t.roots.Load()
	slot := uint32(id)
	if uint64(slot) >= uint64(len(roots)) {
		return nil
	}
	return &roots[slot]
}

// Domain interns k. A domain in which nobody has held a block for some time is freed, and a [Store] to it then fails with
// [ErrUnknownDomain]: so intern at each store, which for a known key takes no lock. On the path of client requests, where keys
// hold what clients sent, use [Index.FindDomain].
func (x *Index) Domain(k DomainKey) Domain {
	if d := x.domains.find(&k); d != nil {
		return d.id
	}
	t := &x.domains
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.find(&k); d != nil {
		return d.id
	}
	d := &domain{id: t.takeIDLocked(), key: k, hash: maphash.Comparable(t.seed, k)}
	d.root = newRun(x.lastRun.Add(1), d.id, nil, 0, nil, nil)
	at := t.at(d.id)
	at.domain.Store(d)
	at.face.Store(d.root.face.Load())
	t.insertLocked(d)
	x.count.bytes.Add(d.bytes())
	d.wait = t.line.PushBack(d)
	x.freeDomainsLocked()
	return d.id
}

// FindDomain returns the domain of k if it has been interned. Nobody holds a block of one that has not. It takes no lock.
func (x *Index) FindDomain(k DomainKey) (Domain, bool) {
	if d := x.domains.find(&k); d != nil {
		return d.id, true
	}
	return 0, false
}

// root returns the face of the empty run that a domain's chains start from, or nil.
func (x *Index) root(id Domain) *face {
	at := x.domains.at(id)
	if at == nil {
		return nil
	}
	// The face of a root has its domain where others have their parent.
	if f := at.face.Load(); f != nil && f.parent == uint64(id) {
		return f
	}
	return nil
}

// keyOf returns the key of a domain that has blocks.
func (x *Index) keyOf(id Domain) DomainKey { return x.domains.at(id).domain.Load().key }

// each calls f for the domains, in the order of their slots.
func (t *domains) each(f func(*domain)) {
	roots := *t.roots.Load()
	for i := range roots {
		if d := roots[i].domain.Load(); d != nil {
			f(d)
		}
	}
}

// takeIDLocked returns an id of a free slot.
func (t *domains) takeIDLocked() Domain {
	if n := len(t.free); n > 0 {
		id := t.free[n-1]
		t.free = t.free[:n-1]
		return id
	}
	old := *t.roots.Load()
	if len(old) == cap(old) {
		// Copied word by word: readers of the old ones go on with them, and what they miss is a domain that is new or gone.
		grown := make([]root, len(old), 2*len(old)+8)
		for i := range old {
			grown[i].face.Store(old[i].face.Load())
			grown[i].domain.Store(old[i].domain.Load())
		}
		old = grown
	}
	roots := old[:len(old)+1]
	t.roots.Store(&roots)
	return Domain(len(old))
}

// insertLocked makes d known. Four domains a bucket at most keep the copying small.
func (t *domains) insertLocked(d *domain) {
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
func (t *domains) removeLocked(d *domain) {
	buckets := *t.buckets.Load()
	b := &buckets[d.hash&uint64(len(buckets)-1)]
	b.Store(new(slices.DeleteFunc(slices.Clone(*b.Load()), func(o *domain) bool { return o == d })))
	if n := len(buckets); int(t.live.Add(-1)) < n/2 {
		t.resizeLocked(n / 2)
	}
}

func (t *domains) resizeLocked(n int) {
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

// retire puts a domain that has lost its last block at the end of the line. No run is locked.
func (x *Index) retire(r *run) {
	t := &x.domains
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.at(r.domain).domain.Load()
	if d == nil || d.root != r {
		return // freed meanwhile
	}
	if d.wait != nil {
		t.line.MoveToBack(d.wait)
		return
	}
	d.wait = t.line.PushBack(d)
	x.freeDomainsLocked()
}

// freeDomainsLocked frees those in front of the line that are still without blocks. Others leave it, and come back with their last block.
func (x *Index) freeDomainsLocked() {
	t := &x.domains
	for t.line.Len() > maxIdleDomains {
		d := t.line.Remove(t.line.Front()).(*domain)
		d.wait = nil
		if !d.root.close() {
			continue
		}
		t.removeLocked(d)
		at := t.at(d.id)
		at.face.Store(nil)
		at.domain.Store(nil)
		if next := d.id + 1<<32; next > d.id { // else the slot has had all the domains it can tell apart
			t.free = append(t.free, next)
		}
		x.count.bytes.Add(-d.bytes())
	}
}

// close marks a root as dead if no chain starts there.
func (r *run) close() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kids > 0 {
		return false
	}
	r.dead.Store(true)
	return true
}

// bytes returns what a domain takes. It does not change.
func (d *domain) bytes() int64 {
	const perDomain = int64(unsafe.Sizeof(domain{})+unsafe.Sizeof(root{})+unsafe.Sizeof(list.Element{})) + 48 // and its share of a bucket
	return perDomain + d.root.bytes() + int64(len(d.key.Model)+len(d.key.LoRA)+len(d.key.Salt))
}
