//go:build !race && !purego

package radix

import "testing"

// Known domains are found without an allocation, but for purego, where maphash allocates.
func TestFindDomainDoesNotAllocate(t *testing.T) {
	x := New(Config{})
	k := salt(1)
	d := x.Domain(k)
	if n := testing.AllocsPerRun(100, func() {
		if got, ok := x.FindDomain(k); !ok || got != d || x.Domain(k) != d {
			t.Error("a domain is lost")
		}
	}); n != 0 {
		t.Errorf("FindDomain and Domain allocate %v times, want 0", n)
	}
}
