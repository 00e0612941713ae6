package radix

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

func salt(i int) DomainKey {
	return DomainKey{Model: "m", BlockSize: 16, Salt: fmt.Sprintf("tenant-%d", i)}
}

// TestDomainsComeAndGo has more tenants than idle domains may stay: memory does not grow with
// them, and a freed domain never means another tenant.
func TestDomainsComeAndGo(t *testing.T) {
	x := New(Config{Seed: 1})
	w := x.AddWorker()
	first := x.Domain(salt(0))
	var most, early int
	for i := range tenants {
		d := x.Domain(salt(i))
		mustStore(t, x, Store{Worker: w, Domain: d, Engine: hashesOf(uint64(i)), Blocks: chain(1)})
		if n := x.Remove(w, TierGPU, hashesOf(uint64(i))); n > 0 {
			t.Fatalf("tenant %d: Remove = %d", i, n)
		}
		if i%16 == 0 { // under the race detector this costs more than the rest
			s := x.Stats()
			if most = max(most, s.Domains); i == tenants/3*2/16*16 {
				early = s.Bytes
			}
		}
	}
	s := x.Stats()
	if most > maxIdleDomains || s.Domains != maxIdleDomains || s.Bytes > early*101/100 {
		t.Errorf("at most %d domains, %d at the end in %d bytes; early there were %d bytes",
			most, s.Domains, s.Bytes, early)
	}
	if n := len(*x.tree.domains.slots.Load()); n > 2*maxIdleDomains {
		t.Errorf("%d slots for %d domains", n, s.Domains)
	}
	if _, ok := x.FindDomain(salt(0)); ok {
		t.Error("the first tenant is still known")
	}
	// Another tenant has its slot now.
	live := x.at(t, uint32(first))
	mustStore(t, x, Store{Worker: w, Domain: live, Engine: hashesOf(1), Blocks: chain(1)})
	if live == first || len(x.Match(nil, live, chain(1))) != 1 || len(x.Match(nil, first, chain(1))) != 0 {
		t.Errorf("domain %#x, which was freed, finds blocks of %#x", first, live)
	}
	if err := x.Store(Store{Worker: w, Domain: first, Engine: hashesOf(2), Blocks: chain(1)}); !errors.Is(err, ErrUnknownDomain) {
		t.Errorf("Store to a domain that was freed = %v", err)
	}
	checkIndex(t, x)
}

// at returns the domain of a slot.
func (x *Index) at(tb testing.TB, slot uint32) Domain {
	tb.Helper()
	d := x.tree.domains.slot(Domain(slot)).domain.Load()
	if d == nil {
		tb.Fatalf("slot %d is free", slot)
	}
	return d.id
}

// TestDomainsWithBlocksStay expects only idle domains to be freed, the longest idle first.
func TestDomainsWithBlocksStay(t *testing.T) {
	x := New(Config{Seed: 1})
	w := x.AddWorker()
	kept := x.Domain(salt(0))
	mustStore(t, x, Store{Worker: w, Domain: kept, Engine: hashesOf(1), Blocks: chain(1)})
	for i := range 3 * maxIdleDomains {
		x.Domain(salt(1 + i))
	}
	if d, ok := x.FindDomain(salt(0)); !ok || d != kept || len(x.Match(nil, d, chain(1))) != 1 {
		t.Errorf("FindDomain of a domain with blocks = %#x, %t", d, ok)
	}
	x.Clear(w)
	for i := range maxIdleDomains - 1 {
		x.Domain(salt(-1 - i))
	}
	if _, ok := x.FindDomain(salt(0)); !ok {
		t.Error("a domain that was emptied is freed before those that were empty longer")
	}
	x.Domain(salt(1 << 20))
	if _, ok := x.FindDomain(salt(0)); ok {
		t.Error("a domain stays without blocks for ever")
	}
	checkIndex(t, x)
}

// TestDomainOfManySlots expects no reuse of a slot whose ids are used up.
func TestDomainOfManySlots(t *testing.T) {
	x := New(Config{Seed: 1})
	x.tree.domains.slots.Store(new(make([]domainSlot, 1)))
	x.tree.domains.free = []Domain{0xffffffff << 32}
	if d := x.Domain(salt(0)); d != 0xffffffff<<32 {
		t.Fatalf("Domain = %#x", d)
	}
	for i := range maxIdleDomains {
		x.Domain(salt(1 + i))
	}
	if len(x.tree.domains.free) > 0 {
		t.Errorf("free are %#x", x.tree.domains.free)
	}
}

// TestDomainsUnderWriters stores for more tenants than idle domains may stay, beside look-ups:
// a stored block must be found until its removal.
func TestDomainsUnderWriters(t *testing.T) {
	const writers = 4
	x := New(Config{Seed: 1, Stripes: 2})
	var wg sync.WaitGroup
	for g := range writers {
		w := x.AddWorker()
		wg.Go(func() {
			var buf []Overlap
			for i := range visits {
				k := salt((g/2*maxIdleDomains/2 + i) % (maxIdleDomains + 200)) // near those of another writer
				s := Store{Worker: w, Domain: x.Domain(k), Engine: hashesOf(uint64(g<<20 | i)), Blocks: chain(1)}
				err := x.Store(s)
				for errors.Is(err, ErrUnknownDomain) {
					s.Domain = x.Domain(k)
					err = x.Store(s)
				}
				d, ok := x.FindDomain(k)
				buf = x.Match(buf[:0], d, s.Blocks)
				found := false
				for _, o := range buf {
					found = found || o.Worker == w
				}
				if err != nil || !ok || d != s.Domain || !found {
					t.Errorf("writer %d: Store = %v, FindDomain = %#x, %t, want %#x; Match = %v",
						g, err, d, ok, s.Domain, buf)
					return
				}
				x.Remove(w, TierGPU, s.Engine)
			}
		})
	}
	wg.Wait()
	checkIndex(t, x)
	if s := x.Stats(); s.Domains > maxIdleDomains || s.Entries > 0 {
		t.Errorf("Stats() = %+v", s)
	}
}
