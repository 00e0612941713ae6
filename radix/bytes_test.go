package radix

import (
	"testing"
	"unsafe"
)

// checkBytes recounts the bytes of a quiet index.
func checkBytes(tb testing.TB, x *Index) {
	tb.Helper()
	total := int64(unsafe.Sizeof(*x)) + int64(len(x.tree.children.stripes))*(cacheLine+sliceBytes)
	slots, domains := int64(0), int64(0)
	x.tree.children.all(func(r *run) {
		if int64(r.counted) != r.byteSize() {
			tb.Fatalf("run %d counts %d bytes, has %d", r.id, r.counted, r.byteSize())
		}
		total += r.byteSize()
	})
	for i := range x.tree.children.stripes {
		slots += int64(len(*x.tree.children.stripes[i].slots.Load()))
	}
	x.tree.domains.all(func(d *domain) { domains += d.byteSize() })
	for _, w := range x.workers.list() {
		if w == nil {
			continue
		}
		held := int64(0)
		for _, h := range w.holdings.list {
			if h == nil {
				continue
			}
			if int64(h.counted) != h.byteSize() {
				tb.Fatalf("holding of worker %d on run %d counts %d bytes, has %d",
					w.id, h.run.id, h.counted, h.byteSize())
			}
			held += h.byteSize()
		}
		if held != w.holdings.bytes || w.sizes.bytes.Load() != w.byteSize() {
			tb.Fatalf("worker %d: holdings of %d bytes, counts %d; size is %d, counts %d",
				w.id, held, w.holdings.bytes, w.byteSize(), w.sizes.bytes.Load())
		}
		total += w.byteSize()
	}
	if got := x.tree.count.bytes.Load(); total != got || slots != x.tree.children.slots.Load() || domains != x.tree.domains.bytes.Load() {
		tb.Fatalf("the index has %d bytes, %d in domains and %d slots, counts %d, %d and %d",
			total, domains, slots, got, x.tree.domains.bytes.Load(), x.tree.children.slots.Load())
	}
}

// domainKeys returns the keys of all domains.
func domainKeys(x *Index) map[Domain]DomainKey {
	keys := make(map[Domain]DomainKey)
	x.tree.domains.all(func(d *domain) { keys[d.id] = d.key })
	return keys
}
