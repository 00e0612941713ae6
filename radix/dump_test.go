package radix

import (
	"strings"
	"testing"
)

func TestDumpIsBounded(t *testing.T) {
	x := New(Config{Seed: 1})
	d := x.Domain(DomainKey{Model: "m"})
	for range maxDumpHolders + 2 {
		w := x.AddWorker()
		mustStore(t, x, Store{Worker: w, Domain: d, Engine: hashesOf(1, 2), Blocks: chain(1, 2)})
	}
	for i := range uint64(5) {
		mustStore(t, x, Store{HasParent: true, Parent: 1, Engine: hashesOf(10 + i), Blocks: chain(Hash(10 + i))})
	}
	tests := []struct {
		nodes, lines int
		last         string
	}{
		{0, 2, "└─ … 1 more here"},
		{1, 3, "   └─ … 5 more here"},
		{3, 5, "   └─ … 3 more here"},
		{100, 7, "   └─ @1 1 blocks 000000000000000e w0:1/1"},
	}
	for _, tt := range tests {
		var out strings.Builder
		x.Dump(&out, tt.nodes)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != tt.lines || lines[len(lines)-1] != tt.last {
			t.Errorf("Dump(%d) has %d lines, the last %q, want %d and %q:\n%s",
				tt.nodes, len(lines), lines[len(lines)-1], tt.lines, tt.last, &out)
		}
		if tt.nodes > 0 && !strings.HasSuffix(lines[1], " w7:2/2 +2") {
			t.Errorf("Dump(%d): %q lists not 8 holders and the number of others",
				tt.nodes, lines[1])
		}
	}
}
