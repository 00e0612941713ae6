//go:build !race

package clientkey_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKeyDoesNotAllocate: a key costs its request no allocation.
func TestKeyDoesNotAllocate(t *testing.T) {
	k := read(t, "a "+hashOf("a")+" models=x,y requests-per-minute=1000000 tokens-per-minute=1000000 concurrency=2")
	secret, now := []byte("a"), time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() {
		key := k.Find(secret)
		if key.Begin(now) != nil || !key.Allows("y", "") || key.Take(now, 1) != nil {
			panic("refused")
		}
		key.Answered(now, 1, 1, 1)
		key.End()
	}))
}
