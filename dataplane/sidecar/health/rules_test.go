package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmpath/warmpath/nvml"
)

// epoch is the time since which the GPU of these tests answers.
var epoch = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// well returns a healthy H100.
func well(index int) nvml.GPU {
	g := nvml.GPU{
		Index: index, UUID: nvml.Some("GPU-" + string(rune('a'+index))), Name: nvml.Some("NVIDIA H100 80GB HBM3"), Since: epoch,
		Memory:      nvml.Memory{Total: nvml.Some(uint64(80 << 30)), Free: nvml.Some(uint64(6 << 30)), Used: nvml.Some(uint64(73 << 30))},
		Temperature: nvml.Temperature{GPU: nvml.Some(61)},
		Clocks:      nvml.Clocks{SM: nvml.Some(1800), SMMax: nvml.Some(2000)},
		Throttle:    nvml.Some(nvml.Throttle(0)),
		MemoryErrors: nvml.MemoryErrors{
			ECC:      nvml.ECC{VolatileCorrected: nvml.Some(uint64(0)), VolatileUncorrected: nvml.Some(uint64(0))},
			Rows:     nvml.Rows{Pending: nvml.Some(false), Failed: nvml.Some(false)},
			Pages:    nvml.Pages{Pending: nvml.Some(false)},
			Recovery: nvml.Some(nvml.RecoveryNone),
		},
		Interconnect: nvml.Interconnect{
			PCIe:   nvml.PCIe{Width: nvml.Some(16), WidthMax: nvml.Some(16)},
			Fabric: nvml.Some(nvml.Fabric{State: "completed", Health: nvml.Health{Summary: nvml.Some("healthy"), Misconfigured: nvml.Some("no")}}),
		},
	}
	for i := range 18 {
		g.Links = append(g.Links, nvml.Link{Index: i, Up: nvml.Some(true), Recoveries: nvml.Some(uint64(0))})
	}
	return g
}

// want is the expected reason of a case; rule "" expects none.
type want struct {
	rule   string
	state  State
	weight float64
	tp     bool
	action Action
}

var nothing = want{"", Healthy, 1, true, Nothing}

func TestEvaluate(t *testing.T) {
	xid := func(age time.Duration, codes ...int) func(*Facts) {
		return func(f *Facts) {
			for _, code := range codes {
				f.GPU.XIDs = append(f.GPU.XIDs, nvml.XID{Code: code, At: f.Now.Add(-age)})
			}
		}
	}
	throttle := func(why nvml.Throttle, clock int) func(*Facts) {
		return func(f *Facts) { f.GPU.Throttle, f.GPU.Clocks.SM = nvml.Some(why), nvml.Some(clock) }
	}
	fabric := func(change func(*nvml.Fabric)) func(*Facts) { return func(f *Facts) { change(&f.GPU.Fabric.Value) } }
	free := func(bytes uint64) func(*Facts) { return func(f *Facts) { f.GPU.Memory.Free = nvml.Some(bytes) } }
	recovery := func(r nvml.Recovery) func(*Facts) { return func(f *Facts) { f.GPU.Recovery = nvml.Some(r) } }
	fail := func(code int) func(*Facts) { return func(f *Facts) { f.GPU.Err = &nvml.Error{Code: code, Text: "x"} } }
	tests := []struct {
		name   string
		change func(*Facts)
		want   want
	}{
		{"well", func(*Facts) {}, nothing},
		{"lost", fail(nvml.CodeLost), want{"lost", Dead, 1, false, Reboot}},
		{"needs a reset", fail(nvml.CodeResetRequired), want{"lost", Dead, 1, false, Reset}},
		{"may not be read", fail(nvml.CodeNoPermission), want{"unreadable", Degraded, 0.5, true, Look}},

		{"recovery reset", recovery(nvml.RecoveryReset), want{"recovery", Dead, 1, false, Reset}},
		{"recovery reboot", recovery(nvml.RecoveryReboot), want{"recovery", Dead, 1, false, Reboot}},
		{"recovery drain P2P", recovery(nvml.RecoveryDrainP2P), want{"recovery", Draining, 1, false, Reset}},
		{"recovery drain and reset", recovery(nvml.RecoveryDrainAndReset), want{"recovery", Draining, 1, false, Reset}},
		{"recovery IMEX", recovery(nvml.RecoveryIMEX), want{"recovery", Degraded, 1, false, Look}},
		{"recovery of the future", recovery("unknown (9)"), want{"recovery", Draining, 1, false, Reset}},

		{"row pending", func(f *Facts) { f.GPU.Rows.Pending = nvml.Some(true) }, want{"rows pending", Degraded, 0.9, true, ResetWhenIdle}},
		{"page pending", func(f *Facts) { f.GPU.Pages.Pending = nvml.Some(true) }, want{"rows pending", Degraded, 0.9, true, ResetWhenIdle}},
		{"row failed", func(f *Facts) { f.GPU.Rows.Failed = nvml.Some(true) }, want{"rows", Draining, 1, false, Replace}},
		{"rows remapped long ago", func(f *Facts) { f.GPU.Rows.Uncorrected = nvml.Some(3) }, nothing},
		{"corrected ECC", func(f *Facts) { f.GPU.ECC.VolatileCorrected = nvml.Some(uint64(1e9)) }, nothing},
		{"uncorrected ECC long ago", func(f *Facts) { f.GPU.ECC.VolatileUncorrected = nvml.Some(uint64(9)) }, nothing},
		{"uncorrected ECC now", func(f *Facts) { f.Uncorrected = 1 }, want{"ecc", Degraded, 0.5, true, Look}},

		{"power cap as usual", throttle(nvml.SWPowerCap, 1500), nothing},
		{"power cap that hurts", throttle(nvml.SWPowerCap, 900), want{"throttle", Degraded, 0.45, true, Nothing}},
		{"thermal in software", throttle(nvml.SWThermal, 1290), want{"throttle", Degraded, 0.6, true, Look}},
		{"thermal in hardware", throttle(nvml.HWThermal|nvml.HWSlowdown, 500), want{"throttle", Degraded, 0.25, true, Look}},
		{"power brake", throttle(nvml.PowerBrake, 1000), want{"throttle", Degraded, 0.5, true, Look}},
		{"brake at no clock", throttle(nvml.PowerBrake, 0), want{"throttle", Degraded, 0.05, true, Look}},
		{"idle and slow", throttle(nvml.Idle, 210), nothing},
		{"idle under the brake", throttle(nvml.Idle|nvml.PowerBrake, 210), want{"throttle", Degraded, 0.5, true, Look}},
		{"clocks set by somebody", throttle(nvml.ClockLimit, 1000), nothing},

		{"memory as SGLang leaves it", free(5 << 30), nothing},
		{"memory tight", free(1 << 30), want{"memory", Degraded, 0.8, true, Nothing}},
		{"memory full", free(0), want{"memory", Degraded, 0.5, true, Nothing}},
		{"divided GPU", func(f *Facts) { free(0)(f); f.GPU.MIG = nvml.Some(nvml.MIG{Enabled: true}) }, nothing},

		{"link down", func(f *Facts) { f.GPU.Links[3].Up = nvml.Some(false) }, want{"nvlink", Degraded, 1, false, Look}},
		{"links unknown", func(f *Facts) { f.GPU.Links[3].Up = nvml.Opt[bool]{} }, nothing},
		{"link recovers", func(f *Facts) { f.Recoveries = 2 }, want{"nvlink errors", Degraded, 0.8, true, Look}},
		{"PCIe narrow", func(f *Facts) { f.GPU.PCIe.Width = nvml.Some(8) }, want{"pcie", Degraded, 0.9, true, Look}},
		{"fabric not joined", fabric(func(v *nvml.Fabric) { v.State = "in progress" }), want{"fabric", Degraded, 1, false, Look}},
		{"fabric refused", fabric(func(v *nvml.Fabric) { v.Status = 999 }), want{"fabric", Degraded, 1, false, Look}},
		{"fabric route", fabric(func(v *nvml.Fabric) { v.Health.RouteUnhealthy = nvml.Some(true) }), want{"fabric", Degraded, 1, false, Look}},
		{"fabric misconfigured", fabric(func(v *nvml.Fabric) { v.Health.Misconfigured = nvml.Some("no partition") }), want{"fabric", Degraded, 1, false, Look}},
		{"fabric unhealthy", fabric(func(v *nvml.Fabric) { v.Health.Summary = nvml.Some("unhealthy") }), want{"fabric", Degraded, 1, false, Look}},
		{"fabric slow", fabric(func(v *nvml.Fabric) { v.Health.BandwidthDegraded = nvml.Some(true) }), want{"fabric", Degraded, 0.8, true, Look}},

		{"XID 79", xid(0, 79), want{"xid 79", Dead, 1, false, Reboot}},
		{"XID 95", xid(0, 95), want{"xid 95", Dead, 1, false, Reset}},
		{"XID 119", xid(0, 119), want{"xid 119", Dead, 1, false, Reset}},
		{"XID 48 alone", xid(0, 48), want{"xid 48", Dead, 1, false, Reset}},
		{"XID 94", xid(0, 94), want{"xid 94", Degraded, 0.5, true, Nothing}},
		{"XID 94, the program is long back", xid(6*time.Minute, 94), nothing},
		{"XID 63, done", xid(0, 63), nothing},
		{"XID 64", xid(0, 64), want{"xid 64", Draining, 1, false, Reset}},
		{"XID 74", xid(0, 74), want{"xid 74", Degraded, 1, false, Reset}},
		{"XID 74, the driver asks for nothing", xid(time.Minute, 74), nothing},
		{"XID 119 before its hour", xid(59*time.Minute, 119), want{"xid 119", Dead, 1, false, Reset}},
		{"XID 119 after its hour", xid(time.Hour, 119), nothing},
		{"unknown XID", xid(0, 777), want{"xid 777", Degraded, 0.8, true, Look}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := well(0)
			f := &Facts{Now: epoch.Add(2 * time.Hour), GPU: &g, Links: 18}
			test.change(f)
			reasons := Evaluate(f)
			if test.want.rule == "" {
				assert.Empty(t, reasons)
				return
			}
			require.Len(t, reasons, 1)
			r := reasons[0]
			assert.NotEmpty(t, r.Detail)
			assert.Equal(t, test.want, want{r.Rule, r.State, r.Weight, r.TP, r.Action})
		})
	}
}

// Application-level XIDs are no fault of the GPU.
func TestApplicationXIDs(t *testing.T) {
	for _, code := range []int{13, 31, 32, 43, 45, 68, 69, 92, 154} {
		g := well(0)
		g.XIDs = []nvml.XID{{Code: code, At: epoch}}
		assert.Empty(t, Evaluate(&Facts{Now: epoch, GPU: &g, Links: 18}), "XID %d", code)
	}
}

func TestContainedErrors(t *testing.T) {
	tests := []struct {
		name  string
		xids  map[int]time.Duration // code to the time after the first
		state State
	}{
		{"contained", map[int]time.Duration{48: 0, 94: time.Second, 63: 2 * time.Second}, Degraded},
		{"another one, much earlier", map[int]time.Duration{94: 0, 48: time.Minute}, Dead},
		{"not contained", map[int]time.Duration{48: 0, 94: time.Second, 95: 2 * time.Second}, Dead},
	}
	for _, test := range tests {
		g := well(0)
		for code, after := range test.xids {
			g.XIDs = append(g.XIDs, nvml.XID{Code: code, At: epoch.Add(after)})
		}
		// A driver that tells no recovery action leaves the XIDs to speak for themselves.
		g.Recovery = nvml.Opt[nvml.Recovery]{}
		res := combine(Evaluate(&Facts{Now: epoch.Add(61 * time.Second), GPU: &g, Links: 18}))
		assert.Equal(t, test.state, res.State, test.name)
	}
}

// XIDs before a reset do not count.
func TestResetForgetsXIDs(t *testing.T) {
	g := well(0)
	g.XIDs = []nvml.XID{{Code: 79, At: epoch}, {Code: 95, At: epoch}}
	g.Since = epoch.Add(time.Second)
	assert.Empty(t, Evaluate(&Facts{Now: epoch.Add(time.Minute), GPU: &g, Links: 18}))
}

// Unknown facts are no faults.
func TestNothingKnown(t *testing.T) {
	assert.Empty(t, Evaluate(&Facts{Now: epoch, GPU: &nvml.GPU{}}))
	assert.Equal(t, Result{Weight: 1, TP: true}, combine(nil))
}

func TestCombine(t *testing.T) {
	res := combine([]Reason{
		{Rule: "a", State: Degraded, Weight: 0.8, TP: true, Action: Look},
		{Rule: "b", State: Draining, Weight: 1, TP: true},
		{Rule: "c", State: Degraded, Weight: 0.01, TP: false},
	})
	assert.Equal(t, Draining, res.State)
	assert.InDelta(t, minWeight, res.Weight, 0, "never 0")
	assert.False(t, res.TP)
	assert.Equal(t, Look, res.Action)
	assert.Equal(t, []string{"b", "c", "a"}, []string{res.Reasons[0].Rule, res.Reasons[1].Rule, res.Reasons[2].Rule})
}

// Every code has one class: no code of the catalogue is in the ranges too.
func TestCatalogueIsUnambiguous(t *testing.T) {
	for code := range catalogue {
		assert.False(t, applicationLevel.has(code), "XID %d", code)
	}
}
