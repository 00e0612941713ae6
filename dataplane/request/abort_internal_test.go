package request

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestPlacesOfClientsAborts: one client never has all of them, and what it gives back is free.
func TestPlacesOfClientsAborts(t *testing.T) {
	c := clientAborts{of: map[uint64]int{}}
	var taken []uint64
	for client := range uint64(2 * maxClientAborts / maxAbortsOfClient) {
		n := 0
		for c.begin(client) {
			n++
			taken = append(taken, client)
		}
		assert.LessOrEqual(t, n, maxAbortsOfClient)
		if client == 0 {
			assert.Less(t, n, maxClientAborts)
		}
	}
	assert.Len(t, taken, maxClientAborts)
	for _, client := range taken {
		c.end(client)
	}
	assert.Empty(t, c.of)
	assert.True(t, c.begin(1))
}
