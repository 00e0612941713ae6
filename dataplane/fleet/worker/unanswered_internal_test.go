package worker

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnansweredByAMap compares with a map in any order of calls: keys that are ended twice, or after
// their request has left, end no other request.
func TestUnansweredByAMap(t *testing.T) {
	var u unanswered
	r := rand.New(rand.NewPCG(1, 2))
	waits, stays := map[uint64]bool{}, map[uint64]bool{}
	var all []uint64
	asked := map[uint64]bool{}
	for range 20_000 {
		switch r.IntN(20) {
		case 0:
			clear(asked)
			u.giveUp(false)
			require.True(t, maps.Equal(waits, asked))
			maps.DeleteFunc(waits, func(key uint64, _ bool) bool { return !stays[key] })
		case 1, 2, 3, 4, 5, 6, 7, 8, 9, 10:
			var key uint64
			key = u.await(func(bool) bool { asked[key] = true; return !stays[key] })
			require.False(t, waits[key])
			waits[key], stays[key] = true, r.IntN(2) == 0
			all = append(all, key)
		default:
			if len(all) > 0 {
				key := all[len(all)-1-r.IntN(min(len(all), 50))]
				u.begun(key)
				delete(waits, key)
			}
		}
	}
	require.Less(t, len(u.slots), 10_000, "slots are used again")
}
