package radix

import (
	"testing"
	"unsafe"
)

// checkWeights counts a quiet index's bytes anew.
func checkWeights(tb testing.TB, x *Index) {
	tb.Helper()
	total := int64(unsafe.Sizeof(*x)) + int64(len(x.children.stripes))*(cacheLine+sliceBytes)
	slots := int64(0)
	x.children.each(func(r *run) {
		if int64(r.weight) != r.bytes() {
			tb.Fatalf("run %d is counted with %d bytes, has %d", r.id, r.weight, r.bytes())
		}
		total += r.bytes()
	})
	for i := range x.children.stripes {
		slots += int64(len(*x.children.stripes[i].slots.Load()))
	}
	x.domains.each(func(d *domain) { total += d.bytes() })
	for _, o := range *x.workers.Load() {
		if o == nil {
			continue
		}
		held := int64(0)
		for _, h := range o.holds {
			if h == nil {
				continue
			}
			if int64(h.weight) != h.bytes() {
				tb.Fatalf("hold of worker %d on run %d is counted with %d bytes, has %d", o.id, h.run.id, h.weight, h.bytes())
			}
			held += h.bytes()
		}
		if held != o.held || o.bytes.Load() != o.size() {
			tb.Fatalf("worker %d: holds of %d bytes, counts %d; size is %d, counts %d", o.id, held, o.held, o.size(), o.bytes.Load())
		}
		total += o.size()
	}
	if total != x.count.bytes.Load() || slots != x.children.slots.Load() {
		tb.Fatalf("the index has %d bytes and %d slots, counts %d and %d", total, slots, x.count.bytes.Load(), x.children.slots.Load())
	}
}

// domainNames returns the keys of all domains.
func (x *Index) domainNames() map[Domain]DomainKey {
	names := make(map[Domain]DomainKey)
	x.domains.each(func(d *domain) { names[d.id] = d.key })
	return names
}
