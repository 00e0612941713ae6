package accesslog_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/request/accesslog"
)

// TestEntryDoesNotAllocate: a request costs no allocation. Entries go round once before, so that
// each has its memory.
func TestEntryDoesNotAllocate(t *testing.T) {
	l, err := accesslog.Open(filepath.Join(t.TempDir(), "access.jsonl"), func(err error) { t.Error(err) })
	require.NoError(t, err)
	ids := make([]uint64, 750)
	step := func() {
		e := l.Begin()
		e.IDs, e.Name = append(e.IDs, ids...), append(e.Name, "0123456789abcdef"...)
		l.Commit(e)
		l.WriteOne()
	}
	for range accesslog.Pending {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(100, step))
}
