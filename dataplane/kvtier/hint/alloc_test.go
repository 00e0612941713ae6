//go:build !race

package hint_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/kvtier/hint"
)

func TestHintsDoNotAllocate(t *testing.T) {
	p := hint.Pages{PageSize: 16, Model: "m", Salt: "s", Tokens: ids(4096)}
	data := hint.AppendFrom(func() []byte { d, _ := hint.Append(nil, &p); return d }(), "node")
	if n := testing.AllocsPerRun(100, func() { _, _ = hint.Append(data[:0], &p) }); n != 0 {
		t.Errorf("Append allocates %v times, want 0", n)
	}
	data = whole(p, "node")
	if n := testing.AllocsPerRun(100, func() { _, _ = hint.Parse(data) }); n != 0 {
		t.Errorf("Parse allocates %v times, want 0", n)
	}
}
