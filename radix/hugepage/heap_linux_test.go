package hugepage

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const someMaps = `00400000-004b3000 r-xp 00000000 fe:00 10010705                           /usr/bin/warmpath
005ac000-005e2000 rw-p 00000000 00:00 0 
a0000000-a3400000 ---p 00000000 00:00 0 
a3400000-a3680000 rw-p 00000000 00:00 0                          [anon: Go: heap]
a3680000-b3680000 rw-p 00000000 00:00 0 
b3680000-b4000000 ---p 00000000 00:00 0 
c0000000-c0800000 rw-p 00000000 00:00 0 
c0800000-c0900000 rw-s 00000000 00:01 7                          /memfd:shared (deleted)
c0900000-c0a00000 rw-p 00000000 00:00 0 
d0000000-d0021000 rw-p 00000000 00:00 0                          [stack]
nonsense
`

func TestAround(t *testing.T) {
	tests := []struct {
		name string
		p    uintptr
		want []span
	}{
		{"heap, over its edges", 0xa3680040, []span{{0xa3400000, 0xa3680000}, {0xa3680000, 0xb3680000}}},
		{"first byte", 0xa3400000, []span{{0xa3400000, 0xa3680000}, {0xa3680000, 0xb3680000}}},
		{"only reserved", 0xa0000000, nil},
		{"ends at a file", 0xc0000000, []span{{0xc0000000, 0xc0800000}}},
		{"begins at a file", 0xc0900000, []span{{0xc0900000, 0xc0a00000}}},
		{"stack", 0xd0000000, nil},
		{"nowhere", 0x10, nil},
	}
	maps := readMaps(strings.NewReader(someMaps))
	for _, test := range tests {
		if got := around(test.p, maps); !slices.Equal(got, test.want) {
			t.Errorf("%s: around(%#x) = %#x, want %#x", test.name, test.p, got, test.want)
		}
	}
}

func TestWhole(t *testing.T) {
	tests := []struct{ s, want span }{
		{span{0, 2 * Size}, span{0, 2 * Size}},
		{span{1, 3*Size + 1}, span{Size, 3 * Size}},
		{span{1, Size - 1}, span{Size, Size}},
	}
	for _, test := range tests {
		if got := test.s.whole(); got != test.want {
			t.Errorf("%#x.whole() = %#x, want %#x", test.s, got, test.want)
		}
	}
}

// FuzzReadMaps writes the mappings read in the kernel's format: reading them again gives the
// same.
func FuzzReadMaps(f *testing.F) {
	f.Add(someMaps)
	f.Add("1-2 rw-p 0 0 0\n-")
	f.Fuzz(func(t *testing.T, text string) {
		maps := readMaps(strings.NewReader(text))
		var b strings.Builder
		for _, m := range maps {
			mode, inode := "---p", 1
			if m.writable {
				mode = "rw-p"
			}
			if m.anonymous {
				inode = 0
			}
			fmt.Fprintf(&b, "%x-%x %s 00000000 00:00 %d \n", m.start, m.end, mode, inode)
		}
		if got := readMaps(strings.NewReader(b.String())); !slices.Equal(got, maps) {
			t.Errorf("%+v, written and read again, is %+v", maps, got)
		}
	})
}

func TestHeapHoldsObjects(t *testing.T) {
	spans, p := heap(), heapAddress()
	if !slices.ContainsFunc(spans, func(s span) bool { return s.start <= p && p < s.end }) {
		t.Errorf("heap() = %#x, without %#x", spans, p)
	}
}
