package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStoreQueueHasPlacesForAll: however much one user asks, others find places.
func TestStoreQueueHasPlacesForAll(t *testing.T) {
	q := newStoreQueue()
	queued := map[string]int{}
	for _, user := range []string{"node.a", "node.a", "router.b", "node.a", "node.c"} {
		for range 1000 {
			if q.push(storing{user: user}) {
				queued[user]++
			}
		}
	}
	require.Equal(t, map[string]int{"node.a": maxStoringOf, "router.b": maxStoringOf, "node.c": maxStoringOf}, queued)
	for len(q.all) > 0 {
		q.taken(<-q.all)
	}
	require.Empty(t, q.of)
	require.True(t, q.push(storing{user: "node.a"}))
}
