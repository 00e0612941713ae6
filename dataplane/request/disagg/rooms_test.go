package disagg

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRoomsLandOnTheirRank(t *testing.T) {
	r := NewRooms()
	for _, ranks := range []int{0, 1, 2, 3, 7, 8, 64, 1000} {
		for rank := range max(ranks, 1) {
			for _, room := range r.Append(nil, 3, rank, ranks) {
				assert.Less(t, room, uint64(1)<<63)
				assert.EqualValues(t, rank, room%uint64(max(ranks, 1)))
			}
		}
	}
}

func TestRoomsNeverComeTwice(t *testing.T) {
	r := NewRooms()
	var mu sync.Mutex
	seen := make(map[uint64]bool)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var mine []uint64
			for i := range 5000 {
				mine = r.Append(mine, 1+i%3, i%5, 5)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, room := range mine {
				assert.False(t, seen[room])
				seen[room] = true
			}
		})
	}
	wg.Wait()
}

// The permutation is one to one for any random parameters, as all numbers of a small width show.
func TestRoomsPermute(t *testing.T) {
	for range 20 {
		r := NewRooms()
		for _, width := range []int{1, 2, 3, 7, 12} {
			seen := make([]bool, 1<<width)
			for x := range uint64(1) << width {
				y := r.permute(x, width)
				require.Less(t, y, uint64(1)<<width)
				require.False(t, seen[y], "width %d", width)
				seen[y] = true
			}
		}
	}
}

// Two routers, and one that was started again, have rooms of their own.
func TestRoomsDiffer(t *testing.T) {
	a, b := NewRooms().Append(nil, 100, 0, 1), NewRooms().Append(nil, 100, 0, 1)
	assert.NotEqual(t, a, b)
	spread := 0
	for i := range a[1:] {
		if a[i]>>32 != a[i+1]>>32 {
			spread++
		}
	}
	assert.Greater(t, spread, 90, "neighbors tell nothing of each other")
}

func TestRoomsDoNotAllocate(t *testing.T) {
	r, dst := NewRooms(), make([]uint64, 0, 8)
	assert.Zero(t, testing.AllocsPerRun(100, func() { dst = r.Append(dst[:0], 8, 3, 5) }))
}
