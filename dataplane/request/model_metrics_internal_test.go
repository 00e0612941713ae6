package request

import (
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
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
	m := newModelMetrics(&Metrics{})
	m.of("tiny").gaps.add(&g)
	m.of("tiny").gaps.add(&g)
	m.of("silent").gaps.add(&gaps{last: at})
	want := make([]uint64, len(gapBounds)+1)
	want[4], want[5], want[16], want[17] = 2, 2, 2, 2 // at most 20 ms, and just beyond it
	assert.Equal(t, want, m.gaps().Buckets)
	var told []string
	each(m, func(one *dto.Metric) { told = append(told, label(one, "model")) })
	assert.Equal(t, []string{"tiny"}, told, "a stream of one token has no gap")
	assert.InDelta(t, 24.08, float64(m.of("tiny").gaps.nanos.Load())/1e9, 1e-3)
	var later gaps
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		at = at.Add(time.Millisecond)
		later.piece(at)
		m.of("tiny").gaps.add(&later)
	}))
}
