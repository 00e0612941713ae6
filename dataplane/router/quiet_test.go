package router

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuiet has a burst leave garbage: it is given back when nobody has needed the collector for a while, not before, and a process that
// holds what it uses is left alone.
func TestQuiet(t *testing.T) {
	percent := debug.SetGCPercent(-1) // it runs when it is told to
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	var q quiet
	q.look()
	q.look()
	const burst = 128 << 20
	buffers := make([][]byte, burst>>20)
	for i := range buffers {
		buffers[i] = make([]byte, 1<<20)
	}
	runtime.GC()
	_, held := heapHeld()
	require.GreaterOrEqual(t, held, uint64(burst))
	runtime.KeepAlive(buffers) // no longer
	require.False(t, q.look(), "the collector has just run")
	require.True(t, q.look())
	_, after := heapHeld()
	require.Less(t, after, held-burst*3/4)
	require.False(t, q.look(), "once is enough")

	kept := make([]byte, burst)
	require.True(t, q.look(), "it may be garbage for all that is known")
	require.False(t, q.look(), "what is in use is not looked for again")
	runtime.KeepAlive(kept)
}

func TestQuietEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- new(quiet).run(ctx, time.Millisecond) }()
	stop()
	require.NoError(t, <-done)
}
