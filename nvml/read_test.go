//go:build cgo && linux

package nvml_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nvml"
	"github.com/warmpath/warmpath/nvml/nvmltest"
)

func TestReadHGX(t *testing.T) {
	m := start(t, nvmltest.HGX())
	s := await(t, m, "GPUs", ready)
	require.Len(t, s.GPUs, 8)
	assert.Equal(t, nvml.Driver{Version: nvml.Some("570.86.15"), CUDA: nvml.Some("12.8"), Events: true}, s.Driver)
	assert.Positive(t, s.Took)

	g := s.GPUs[5]
	require.Len(t, g.Links, 18)
	assert.Equal(t, 18, g.LinksUp())
	assert.False(t, g.Since.IsZero())
	links := g.Links
	g.Links, g.Since = nil, time.Time{}
	no, zero := nvml.Some(false), nvml.Some(uint64(0))
	assert.Equal(t, nvml.GPU{
		Index: 5, UUID: nvml.Some("GPU-00000005-86f3-7a43-b711-4771313afc50"), Name: nvml.Some("NVIDIA H100 80GB HBM3"),
		Bus: nvml.Some("00000000:6D:00.0"),
		Memory: nvml.Memory{
			Total: nvml.Some(uint64(80 << 30)), Free: nvml.Some(uint64(5 << 30)), Used: nvml.Some(uint64(74 << 30)),
			Reserved: nvml.Some(uint64(1 << 30)),
		},
		Utilization: nvml.Utilization{GPU: nvml.Some(87), Memory: nvml.Some(55)},
		Temperature: nvml.Temperature{GPU: nvml.Some(61), Memory: nvml.Some(72)},
		Clocks:      nvml.Clocks{SM: nvml.Some(1830), SMMax: nvml.Some(1980), Memory: nvml.Some(2619)},
		Power:       nvml.Power{Draw: nvml.Some(560_000), Limit: nvml.Some(700_000), Energy: zero},
		Throttle:    nvml.Some(nvml.Throttle(0)),
		MemoryErrors: nvml.MemoryErrors{
			ECC: nvml.ECC{VolatileCorrected: zero, VolatileUncorrected: zero, AggregateCorrected: zero, AggregateUncorrected: zero},
			Rows: nvml.Rows{
				Corrected: nvml.Some(0), Uncorrected: nvml.Some(0), Pending: no, Failed: no,
			},
			Pages:    nvml.Pages{SingleBit: nvml.Some(0), DoubleBit: nvml.Some(0), Pending: no},
			Recovery: nvml.Some(nvml.RecoveryNone),
		},
		Interconnect: nvml.Interconnect{
			PCIe: nvml.PCIe{
				Generation: nvml.Some(5), GenerationMax: nvml.Some(5), Width: nvml.Some(16), WidthMax: nvml.Some(16), Replays: zero,
				Sent: zero, Received: zero,
			},
			Fabric: nvml.Some(nvml.Fabric{
				State: "completed",
				Health: nvml.Health{
					Summary: nvml.Some("healthy"), BandwidthDegraded: no, RouteUnhealthy: no,
					Misconfigured: nvml.Some("no"),
				},
			}),
		},
		MIG: nvml.Some(nvml.MIG{}), Processes: nvml.Some([]nvml.Process{}),
	}, g)

	l := links[7]
	l.SendRate, l.ReceiveRate = nvml.Opt[float64]{}, nvml.Opt[float64]{}
	assert.Equal(t, nvml.Link{
		Index: 7, Up: nvml.Some(true), Version: nvml.Some("4.0"), Remote: nvml.Some("switch"),
		Speed: nvml.Some(26562), Sent: zero, Received: zero, Replays: zero, Recoveries: zero, CRC: zero,
	}, l)
}

// Each change of the fake is seen in its own field of the snapshot.
func TestChanges(t *testing.T) {
	m := start(t, nvmltest.HGX())
	before := await(t, m, "GPUs", ready).GPUs[2]
	tests := []struct {
		name   string
		change func(*nvmltest.GPU)
		seen   func(*nvml.GPU) bool
	}{
		{"memory fills", func(g *nvmltest.GPU) { g.Used = 79 << 30 }, func(g *nvml.GPU) bool { return g.Memory.Free == nvml.Some(uint64(0)) }},
		{
			"throttles", func(g *nvmltest.GPU) { g.Throttle, g.Clock = 0x40, 900 },
			func(g *nvml.GPU) bool {
				return g.Throttle == nvml.Some(nvml.HWThermal) && g.Clocks.SM == nvml.Some(900)
			},
		},
		{
			"computes", func(g *nvmltest.GPU) { g.Processes, g.Energy = [16]uint64{70001, 70002, 70003}, 5e12 },
			func(g *nvml.GPU) bool {
				p := g.Processes.Value
				return len(p) == 3 && p[2].PID == 70003 && p[2].Memory.Value == g.Memory.Used.Value/3 && g.Power.Energy == nvml.Some(uint64(5e12))
			},
		},
		{"hot", func(g *nvmltest.GPU) { g.Temperature = 91 }, func(g *nvml.GPU) bool { return g.Temperature.GPU == nvml.Some(91) }},
		{
			"corrected ECC", func(g *nvmltest.GPU) { g.VolatileCorrected = 1 << 40 },
			func(g *nvml.GPU) bool { return g.ECC.VolatileCorrected == nvml.Some(uint64(1<<40)) },
		},
		{"remap pending", func(g *nvmltest.GPU) { g.RowsPending = 1 }, func(g *nvml.GPU) bool { return g.Rows.Pending == nvml.Some(true) }},
		{"remap failed", func(g *nvmltest.GPU) { g.RowsFailed = 1 }, func(g *nvml.GPU) bool { return g.Rows.Failed == nvml.Some(true) }},
		{"page pending", func(g *nvmltest.GPU) { g.PagesPending = 1 }, func(g *nvml.GPU) bool { return g.Pages.Pending == nvml.Some(true) }},
		{"recovery", func(g *nvmltest.GPU) { g.Recovery = 4 }, func(g *nvml.GPU) bool { return g.Recovery == nvml.Some(nvml.RecoveryDrainAndReset) }},
		{"PCIe narrows", func(g *nvmltest.GPU) { g.PCIeWidth = 4 }, func(g *nvml.GPU) bool { return g.PCIe.Width == nvml.Some(4) }},
		{"link down", func(g *nvmltest.GPU) { g.Links[17].Up = 0 }, func(g *nvml.GPU) bool { return g.Links[17].Up == nvml.Some(false) }},
		{
			"link errors", func(g *nvmltest.GPU) { g.Links[0].Replays, g.Links[0].Recoveries, g.Links[0].CRC = 5, 6, 7 },
			func(g *nvml.GPU) bool {
				l := g.Links[0]
				return l.Replays == nvml.Some(uint64(5)) && l.Recoveries == nvml.Some(uint64(6)) && l.CRC == nvml.Some(uint64(7))
			},
		},
		{
			"fabric unwell", func(g *nvmltest.GPU) { g.FabricMask, g.FabricSummary = 1|1<<4|5<<8, 2 },
			func(g *nvml.GPU) bool {
				h := g.Fabric.Value.Health
				return h.BandwidthDegraded == nvml.Some(true) && h.RouteUnhealthy == nvml.Some(true) &&
					h.Misconfigured == nvml.Some("insufficient NVLinks") && h.Summary == nvml.Some("unhealthy")
			},
		},
		{
			"divided", func(g *nvmltest.GPU) { g.MIG, g.MIGPending, g.MIGInstances = 1, 1, 2 },
			func(g *nvml.GPU) bool {
				return g.MIG.Value.Enabled && g.MIG.Value.Instances == 2
			},
		},
	}
	for _, test := range tests {
		assert.False(t, test.seen(&before), "%s: seen before it was so", test.name)
		update(t, func(s *nvmltest.State) { *s = nvmltest.HGX(); test.change(&s.GPUs[2]) })
		await(t, m, test.name, func(s *nvml.Snapshot) bool { return test.seen(&s.GPUs[2]) })
	}
}

func TestRates(t *testing.T) {
	m := start(t, nvmltest.HGX())
	first := anew(t, m)
	// Only one read after a change shows a rate, and its snapshot may be replaced before this
	// test sees it.
	s := await(t, m, "a rate", func(s *nvml.Snapshot) bool {
		if s.GPUs[0].Links[3].SendRate.Or(0) > 0 {
			return true
		}
		update(t, func(s *nvmltest.State) { s.GPUs[0].Links[3].Sent += 1 << 40 })
		return false
	})
	// The two reads are at most as far apart as the whole test took, so the rate is at least
	// this.
	least := float64(1<<40) / s.At.Sub(first.At.Add(-first.Took)).Seconds()
	assert.GreaterOrEqual(t, s.GPUs[0].Links[3].SendRate.Value, least)

	await(t, m, "no rate of a counter that was reset", func(s *nvml.Snapshot) bool {
		update(t, func(s *nvmltest.State) { s.GPUs[0].Links[3].Sent-- })
		return !s.GPUs[0].Links[3].SendRate.OK
	})
}

func TestLostGPU(t *testing.T) {
	m := start(t, nvmltest.HGX())
	before := await(t, m, "GPUs", ready)
	update(t, func(s *nvmltest.State) { s.GPUs[4].Lost = 1 })
	lost := await(t, m, "a lost GPU", func(s *nvml.Snapshot) bool { return s.GPUs[4].Err != nil })
	g := lost.GPUs[4]
	assert.Equal(t, nvml.CodeLost, g.Err.Code)
	assert.Equal(t, "nvml: GPU is lost (15)", g.Err.Error())
	assert.Equal(t, before.GPUs[4].UUID, g.UUID, "its identity is kept")
	assert.False(t, g.Memory.Total.OK)
	assert.Empty(t, g.Links)
	for _, i := range []int{0, 3, 5, 7} {
		assert.Nil(t, lost.GPUs[i].Err)
		assert.Len(t, lost.GPUs[i].Links, 18)
	}
	// XIDs of the others still arrive, once a set of events without the lost GPU exists.
	await(t, m, "an XID of another", func(s *nvml.Snapshot) bool {
		require.NoError(t, fake.XID(5, 31))
		return len(s.GPUs[5].XIDs) > 0
	})

	update(t, func(s *nvmltest.State) { s.GPUs[4].Lost = 0 })
	back := await(t, m, "the GPU again", func(s *nvml.Snapshot) bool { return s.GPUs[4].Err == nil })
	assert.True(t, back.GPUs[4].Since.After(before.GPUs[4].Since), "it began anew")
	assert.Len(t, back.GPUs[4].Links, 18)
}

// A GPU lost between two calls of one read is lost, not half read.
func TestGPULostInTheMiddleOfARead(t *testing.T) {
	m := start(t, nvmltest.HGX())
	await(t, m, "GPUs", ready)
	for _, code := range []int{nvml.CodeLost, nvml.CodeResetRequired} {
		update(t, func(s *nvmltest.State) { s.Fail = map[string]int{"nvmlDeviceGetPowerUsage": code} })
		s := await(t, m, "the error", func(s *nvml.Snapshot) bool { return s.GPUs[0].Err != nil && s.GPUs[0].Err.Code == code })
		assert.False(t, s.GPUs[0].Memory.Total.OK)
		assert.True(t, s.GPUs[0].UUID.OK)
	}
	update(t, func(s *nvmltest.State) { s.Fail = nil })
	await(t, m, "the GPU again", func(s *nvml.Snapshot) bool { return s.GPUs[0].Err == nil })
}

func TestXIDs(t *testing.T) {
	s := nvmltest.HGX()
	m := start(t, s)
	await(t, m, "GPUs", ready)
	for i, code := range []int{79, 48, 63, 94, 95, 13, 31, 43, 45, 74} {
		require.NoError(t, fake.XID(6, code))
		got := await(t, m, "the XID", func(s *nvml.Snapshot) bool { return len(s.GPUs[6].XIDs) == i+1 })
		assert.Equal(t, code, got.GPUs[6].XIDs[i].Code)
		assert.False(t, got.GPUs[6].XIDs[i].At.IsZero())
		assert.False(t, got.GPUs[6].XIDs[i].Instance.OK)
	}
	for _, g := range m.Snapshot().GPUs {
		assert.Equal(t, g.Index == 6, len(g.XIDs) > 0)
	}
	for range 60 {
		require.NoError(t, fake.XID(6, 31))
	}
	await(t, m, "the newest 32 only", func(s *nvml.Snapshot) bool {
		return len(s.GPUs[6].XIDs) == 32 && s.GPUs[6].XIDs[0].Code == 31
	})
}

// The facts of a failing function are unknown, and no other fact is.
func TestFailingFunctions(t *testing.T) {
	m := start(t, nvmltest.HGX())
	await(t, m, "GPUs", ready)
	tests := map[string]func(*nvml.GPU) bool{
		"nvmlDeviceGetUtilizationRates":          func(g *nvml.GPU) bool { return !g.Utilization.GPU.OK && !g.Utilization.Memory.OK },
		"nvmlDeviceGetFieldValues":               func(g *nvml.GPU) bool { return !g.ECC.VolatileCorrected.OK && !g.Links[0].Speed.OK },
		"nvmlDeviceGetMemoryInfo_v2":             func(g *nvml.GPU) bool { return g.Memory.Used.OK && !g.Memory.Reserved.OK },
		"nvmlDeviceGetTemperatureV":              func(g *nvml.GPU) bool { return g.Temperature.GPU == nvml.Some(61) },
		"nvmlDeviceGetCurrentClocksEventReasons": func(g *nvml.GPU) bool { return g.Throttle.OK },
		"nvmlDeviceGetGpuFabricInfoV":            func(g *nvml.GPU) bool { return !g.Fabric.OK },
		"nvmlDeviceGetMigMode":                   func(g *nvml.GPU) bool { return !g.MIG.OK },
		"nvmlDeviceGetNvLinkState":               func(g *nvml.GPU) bool { return len(g.Links) == 18 && !g.Links[0].Up.OK },
		"nvmlDeviceGetClockInfo":                 func(g *nvml.GPU) bool { return !g.Clocks.SM.OK && g.Clocks.SMMax.OK },
	}
	for symbol, holds := range tests {
		update(t, func(s *nvmltest.State) { s.Fail = map[string]int{symbol: nvmltest.NotSupported} })
		s := anew(t, m)
		assert.Equal(t, nvml.StateReady, s.State, symbol)
		assert.Nil(t, s.GPUs[0].Err, symbol)
		assert.True(t, holds(&s.GPUs[0]), symbol)
		assert.True(t, s.GPUs[0].Power.Draw.OK, symbol)
	}
}

func TestOldDriver(t *testing.T) {
	if !inChild(t, "old") {
		return
	}
	m := start(t, nvmltest.HGX())
	s := await(t, m, "GPUs", ready)
	assert.False(t, s.Driver.Events)
	g := s.GPUs[0]
	assert.Equal(t, nvml.Some(uint64(75<<30)), g.Memory.Used, "with the driver's share")
	assert.False(t, g.Memory.Reserved.OK)
	assert.Equal(t, nvml.Some(61), g.Temperature.GPU)
	assert.True(t, g.Throttle.OK)
	assert.False(t, g.Bus.OK || g.Fabric.OK || g.MIG.OK || g.ECC.VolatileCorrected.OK)
	assert.Empty(t, g.Links)
	anew(t, m) // reads go on without events
}

func TestBareDriver(t *testing.T) {
	if !inChild(t, "bare") {
		return
	}
	m := start(t, nvmltest.HGX())
	s := await(t, m, "GPUs", ready)
	require.Len(t, s.GPUs, 8)
	g := s.GPUs[7]
	g.Since = time.Time{}
	assert.Equal(t, nvml.GPU{Index: 7}, g, "nothing is known, and nothing ends the process")
	anew(t, m)
}

func TestSecondVersionOfFabric(t *testing.T) {
	if !inChild(t, "fabric v2") {
		return
	}
	g := await(t, start(t, nvmltest.HGX()), "GPUs", ready).GPUs[0]
	assert.Equal(t, "completed", g.Fabric.Value.State)
	assert.False(t, g.Fabric.Value.Health.Summary.OK, "only the third version has it")
	assert.Equal(t, nvml.Some(false), g.Fabric.Value.Health.RouteUnhealthy)
}
