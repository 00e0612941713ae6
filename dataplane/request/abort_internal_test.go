package request

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/request/clientkey"
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

// sameNames are n requests of one name.
func sameNames(n int) *sentIDs {
	f := &sentIDs{own: map[uint64]*exchange{}, named: map[string]holders{}}
	for i := range n {
		x := &exchange{}
		x.req.RID = "same"
		x.id.key, x.id.rid = uint64(i), []byte("wp-"+strconv.Itoa(i))
		f.add(x)
	}
	return f
}

func anyKey(*clientkey.Key) bool { return true }

// TestAnAbortMeansEachRequestOnce: also one that has the name twice, and again the next time.
func TestAnAbortMeansEachRequestOnce(t *testing.T) {
	f := sameNames(3)
	twice := &exchange{}
	twice.req.RIDs, twice.id.key, twice.id.rid = []string{"same", "same"}, 3, []byte("wp-3")
	f.add(twice)
	for range 2 {
		means := map[*exchange]int{}
		assert.True(t, f.abort("same", anyKey, func(x *exchange, _ []string) { means[x]++ }))
		assert.Len(t, means, 4)
		for _, n := range means {
			assert.Equal(t, 1, n)
		}
	}
}

// BenchmarkAbortOfOneName: all requests wait for it, so that it must take no longer than there are requests.
func BenchmarkAbortOfOneName(b *testing.B) {
	for _, n := range []int{1_000, 16_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			f := sameNames(n)
			for b.Loop() {
				f.abort("same", anyKey, func(*exchange, []string) {})
			}
		})
	}
}
