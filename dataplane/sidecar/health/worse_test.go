package health

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nvml"
)

// worsen makes one random fact of a GPU worse, and names it.
func worsen(rnd *rand.Rand, f *Facts) string {
	g := f.GPU
	switch rnd.IntN(11) {
	case 0:
		g.ECC.VolatileUncorrected.Value++
		f.Uncorrected++
		return "uncorrected errors"
	case 1: // slower, under what slows it
		g.Throttle = nvml.Some(g.Throttle.Value | nvml.HWSlowdown)
		g.Clocks.SM.Value = g.Clocks.SM.Value * (50 + rnd.IntN(50)) / 100
		return "a slowdown"
	case 2:
		g.Memory.Free.Value = uint64(float64(g.Memory.Free.Value) * rnd.Float64())
		return "less memory"
	case 3:
		g.Links = append([]nvml.Link(nil), g.Links...)
		g.Links[rnd.IntN(len(g.Links))].Up = nvml.Some(false)
		return "a link down"
	case 4:
		f.Recoveries++
		return "links that recover"
	case 5:
		g.Rows.Failed = nvml.Some(true)
		return "a row that could not be remapped"
	case 6:
		g.Rows.Pending = nvml.Some(true)
		return "rows pending"
	case 7:
		if g.Recovery.Value == nvml.RecoveryNone {
			g.Recovery = nvml.Some(nvml.RecoveryDrainAndReset)
		} else {
			g.Recovery = nvml.Some(nvml.RecoveryReboot)
		}
		return "a recovery action"
	case 8:
		g.PCIe.Width.Value = max(g.PCIe.Width.Value/2, 1)
		return "PCIe lanes"
	case 9:
		g.Fabric.Value.Health.RouteUnhealthy = nvml.Some(true)
		return "the fabric"
	}
	code := rnd.IntN(175)
	if code == 94 { // beside a 48 it is good news: the error was contained
		code = 95
	}
	g.XIDs = append(append([]nvml.XID(nil), g.XIDs...), nvml.XID{Code: code, At: f.Now.Add(-time.Duration(rnd.IntN(120)) * time.Second)})
	return "an XID"
}

// Worse facts never give a better state, more weight, or tensor-parallel work.
func TestWorseFactsAreNoBetter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for range 3000 {
		g := well(0)
		f := &Facts{Now: epoch.Add(2 * time.Hour), GPU: &g, Links: 18}
		before := combine(Evaluate(f))
		for range 6 {
			what := worsen(rnd, f)
			after := combine(Evaluate(f))
			require.GreaterOrEqual(t, after.State, before.State, "%s", what)
			require.LessOrEqual(t, after.Weight, before.Weight, "%s", what)
			require.False(t, after.TP && !before.TP, "%s", what)
			require.GreaterOrEqual(t, after.Action, before.Action, "%s", what)
			before = after
		}
	}
}

// Over time: a machine with all faults of another one and more is never healthier.
func TestTrackerOfWorseFactsIsNoBetter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	for range 60 {
		mild, bad := NewTracker(Config{}), NewTracker(Config{})
		for second := range 90 {
			now := epoch.Add(time.Duration(second) * time.Second)
			a, b := well(0), well(0)
			trouble := func(g *nvml.GPU) { g.Throttle, g.Clocks.SM = nvml.Some(nvml.HWSlowdown), nvml.Some(1000) }
			if rnd.IntN(3) == 0 {
				trouble(&a)
				trouble(&b)
			}
			if rnd.IntN(5) == 0 {
				trouble(&b)
				b.Clocks.SM = nvml.Some(500)
			}
			if rnd.IntN(40) == 0 {
				b.Rows.Failed = nvml.Some(true)
			}
			x := mild.Update(now, &nvml.Snapshot{State: nvml.StateReady, At: now, GPUs: []nvml.GPU{a}})[0]
			y := bad.Update(now, &nvml.Snapshot{State: nvml.StateReady, At: now, GPUs: []nvml.GPU{b}})[0]
			require.GreaterOrEqual(t, y.State, x.State)
			require.LessOrEqual(t, y.Weight, x.Weight)
		}
	}
}

// A GPU that becomes unreadable keeps its faults.
func TestUnreadableKeepsWhatWasWrong(t *testing.T) {
	m := newMachine(t, 2)
	m.snap.GPUs[0].Rows.Failed = nvml.Some(true)
	require.Equal(t, Draining, m.run(5 * time.Second)[0].State)
	m.snap.GPUs[0].Err = &nvml.Error{Code: nvml.CodeNoPermission, Text: "x"}
	res := m.run(10 * time.Minute)
	assert.Equal(t, Draining, res[0].State)
	assert.Equal(t, Healthy, res[1].State)
	m.snap.GPUs[0].Err = nil
	m.snap.GPUs[0].Rows.Failed = nvml.Some(false)
	assert.Equal(t, Healthy, m.run(45 * time.Second)[0].State, "seen to be well")
}

// XIDs before the loss of a GPU explain it.
func TestLostGPUSaysWhy(t *testing.T) {
	g := well(0)
	g.Err = &nvml.Error{Code: nvml.CodeLost, Text: "x"}
	g.XIDs = []nvml.XID{{Code: 79, At: epoch}}
	reasons := combine(Evaluate(&Facts{Now: epoch.Add(time.Second), GPU: &g})).Reasons
	require.Len(t, reasons, 2)
	assert.Equal(t, []string{"lost", "xid 79"}, []string{reasons[0].Rule, reasons[1].Rule})
}
