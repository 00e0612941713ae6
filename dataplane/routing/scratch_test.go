package routing_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/routing"
)

// TestScratchHasNoRanks: a request keeps what its prompt is known by, and nothing of each rank:
// streams last for minutes.
func TestScratchHasNoRanks(t *testing.T) {
	// Facts of 512 ranks have 200 KiB. The choices that Recent keeps have some, however many requests
	// there are.
	const requests, most = 512, 16 << 10
	f := newFleet(t, &node{models: named(model), dp: 512})
	p := prompt(tokens(1, 100))
	_, err := f.router.Pick(&f.scratch, p, nil)
	require.NoError(t, err)
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	var all [requests]routing.Scratch
	for i := range all {
		_, err := f.router.Pick(&all[i], p, nil)
		require.NoError(t, err)
	}
	after := live()
	runtime.KeepAlive(&all)
	require.Less(t, after, before+requests*most)
}
