package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/warmpath/warmpath/dataplane/fleet/worker"
)

// TestColdSpeed: a rank that has computed little counts as fast as its peers, the less the more it
// has computed, and never slower than it says itself.
func TestColdSpeed(t *testing.T) {
	now := time.Unix(1e6, 0)
	var l worker.Load
	rate := func() float64 { return l.View(now).Rate }
	assert.Zero(t, rate(), "nobody knows a speed")
	l.SetSimilarSpeed(now, 16_000)
	assert.EqualValues(t, 16_000, rate(), "its own is not known")
	l.Report(now, worker.Report{})
	l.Report(now, worker.Report{Prefilled: 8_192, Busy: 8_192 * time.Second / 6_400})
	assert.InEpsilon(t, 2/(1/6_400.+1/16_000.), rate(), 0.01, "half of the tokens that prove a speed")
	l.Report(now, worker.Report{Prefilled: 16_384, Busy: 16_384 * time.Second / 6_400})
	assert.InEpsilon(t, 6_400, rate(), 0.01, "proved")
	l.SetSimilarSpeed(now, 3_000)
	assert.InEpsilon(t, 6_400, rate(), 0.01, "faster ones need no proof")
	assert.InEpsilon(t, 6_400, l.OwnSpeed(), 0.01)
}
