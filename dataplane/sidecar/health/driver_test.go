//go:build cgo && linux

package health_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/dataplane/sidecar/health"
	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

// TestFromDriverToState breaks a fake driver below the real binding: each fault becomes a state
// and ends again. Times are short.
func TestFromDriverToState(t *testing.T) {
	driver, err := nvmltest.Build(t.TempDir())
	if errors.Is(err, nvmltest.ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NoError(t, driver.Set(nvmltest.HGX()))
	monitor := nvml.New(nvml.Config{Library: driver.Library, Every: 10 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- monitor.Run(ctx) }()
	defer func() {
		stop()
		assert.NoError(t, <-ended)
	}()

	// Facts are stale only where a step says so: a busy machine may hold up a read for seconds.
	tracker := health.NewTracker(health.Config{Rise: time.Nanosecond, Fall: time.Nanosecond, Stale: time.Hour})
	gpu := func(ahead time.Duration) health.Result {
		results := tracker.Update(time.Now().Add(ahead), monitor.Snapshot())
		if len(results) != 8 {
			return health.Result{State: -1}
		}
		return results[3]
	}
	await := func(what string, state health.State, tp bool) {
		t.Helper()
		for patience := time.After(time.Minute); ; {
			next := monitor.Snapshot().Next()
			got := gpu(0)
			if got.State == state && got.TP == tp {
				return
			}
			select {
			case <-next:
			case <-patience:
				t.Fatalf("%s: %+v, want %v, TP %t", what, got, state, tp)
			}
		}
	}
	update := func(change func(*nvmltest.GPU)) {
		require.NoError(t, driver.Update(func(s *nvmltest.State) { change(&s.GPUs[3]) }))
	}

	await("well", health.Healthy, true)
	update(func(g *nvmltest.GPU) { g.Links[7].Up = 0 })
	await("NVLink down", health.Degraded, false)
	update(func(g *nvmltest.GPU) { g.Links[7].Up = 1 })
	await("NVLink up", health.Healthy, true)

	update(func(g *nvmltest.GPU) { g.Throttle, g.Clock = 0x80, 600 })
	await("power brake", health.Degraded, true)
	assert.InDelta(t, 0.3, gpu(0).Weight, 0)
	update(func(g *nvmltest.GPU) { g.Throttle, g.Used = 0, 79<<30 })
	await("memory full", health.Degraded, true)
	update(func(g *nvmltest.GPU) { g.Used, g.VolatileCorrected = 74<<30, 1000 })
	await("corrected errors", health.Healthy, true)

	require.NoError(t, driver.XID(3, 31))
	require.NoError(t, driver.XID(3, 79))
	await("XID 79", health.Dead, false)
	require.NoError(t, driver.Reload())
	await("driver reloaded", health.Healthy, true)

	update(func(g *nvmltest.GPU) { g.Lost = 1 })
	await("lost", health.Dead, false)
	update(func(g *nvmltest.GPU) { g.Lost = 0 })
	await("found", health.Healthy, true)
	assert.Equal(t, health.Degraded, gpu(2*time.Hour).State, "facts of two hours ago")
}
