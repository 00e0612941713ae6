package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/bubbletest"
	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

func TestKeyed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var k worker.ExtraKeys
		require.False(t, k.Any())
		require.False(t, k.Take(1))
		a, b := k.Expect([]uint64{1, 2, 3, 3}), k.Expect([]uint64{2, 4})
		require.True(t, k.Any())
		require.Equal(t, []bool{true, false}, []bool{k.Take(1), k.Take(1)}, "one store for each")
		require.Equal(t, []bool{true, true, false}, []bool{k.Take(2), k.Take(2), k.Take(2)}, "of two prompts")
		require.Equal(t, []bool{true, true, false}, []bool{k.Take(3), k.Take(3), k.Take(3)}, "twice in one prompt")
		k.End(a)
		time.Sleep(3 * time.Second)
		require.True(t, k.Any(), "the other has not ended")
		k.End(b)
		require.True(t, k.Any(), "its last events may be under way")
		time.Sleep(3 * time.Second)
		require.False(t, k.Take(4))
		require.False(t, k.Any())
		k.End(nil)

		many := make([]uint64, 1<<18)
		p := k.Expect(many)
		k.End(k.Expect([]uint64{9}))
		require.False(t, k.Take(9), "beyond the bound")
		k.End(p)
		time.Sleep(3 * time.Second)
		require.False(t, k.Take(0))
		require.False(t, k.Any())
	})
}
