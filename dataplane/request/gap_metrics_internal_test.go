package request

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestGapsAreOfTokens: what comes with a token, before or behind it, makes no gap of its own.
func TestGapsAreOfTokens(t *testing.T) {
	var g gaps
	at := time.Unix(1000, 0)
	for _, gap := range []time.Duration{0, 80 * time.Microsecond, 20 * time.Millisecond, 3 * time.Second, 20*time.Millisecond + 1, 9 * time.Second, 60 * time.Microsecond} {
		at = at.Add(gap)
		g.piece(at)
	}
	m := &gapMetrics{}
	m.add("tiny", &g)
	m.add("tiny", &g)
	m.add("silent", &gaps{last: at})
	want := make([]uint64, len(gapBounds)+1)
	want[4], want[5], want[16], want[17] = 2, 2, 2, 2 // at most 20 ms, and just beyond it
	assert.Equal(t, want, m.sums().Buckets)
	assert.Len(t, m.known(), 1, "a stream of one token has no gap")
	assert.InDelta(t, 24.08, float64(m.known()["tiny"].nanos.Load())/1e9, 1e-3)
	var later gaps
	assert.Zero(t, testing.AllocsPerRun(100, func() { at = at.Add(time.Millisecond); later.piece(at); m.add("tiny", &later) }))
}
