//go:build !race || soak

package promptcache_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTextsBeyondTheMemory: a piece that no shard has room for, and more texts than fit.
func TestTextsBeyondTheMemory(t *testing.T) {
	c, _ := textCache(t, 256<<10, 16)
	cur, enc, root := c.NewCursor(), &runs{}, c.NewRoot()
	for round := range 3 {
		for seed := range 60 {
			text := slices.Concat(said(seed, 9), bytes.Repeat([]byte("long"), 10_000*(seed%3)), said(seed+100, 9))
			ids, err := cur.Encode(root, nil, text, enc)
			require.NoError(t, err)
			require.Equal(t, idsOf(text, 0), ids, "round %d, text %d", round, seed)
		}
		require.Empty(t, c.Check())
	}
	assert.Positive(t, c.Stats().Evicted)
}
