//go:build !race

package turns_test

import (
	"testing"

	"github.com/warmpath/warmpath/dataplane/routing/turns"
)

func TestTurnDoesNotAllocate(t *testing.T) {
	table, prompt := turns.New(1), units(1, 2000)
	prefixes := make([]uint64, 0, 4000)
	n := testing.AllocsPerRun(100, func() {
		prompt = append(prompt[:2000+len(prefixes)%7], prompt[:9]...)
		prefixes = turns.AppendPrefixes(prefixes[:0], table, prompt)
		for name := range uint64(3) {
			f := table.Find(prefixes, name, false)
			table.Begin(&f, prefixes, 1)
			table.End(&f, 2)
		}
	})
	if n != 0 {
		t.Errorf("a turn allocates %v times, want 0", n)
	}
}
