package health

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/nvml"
)

// Facts are the input of the rules: one GPU as it was read, and its history.
type Facts struct {
	Now         time.Time
	GPU         *nvml.GPU
	Links       int    // number of NVLinks that should be up
	Uncorrected uint64 // uncorrected ECC errors since the last read
	Recoveries  uint64 // NVLink recoveries since the last read
}

// rules are all rules for a GPU that answers, in their order.
var rules = []func(*Facts) []Reason{
	judgeXIDs, judgeRecovery, judgeRows, judgeECC, judgeThrottle, judgeMemory, judgeLinks, judgeFabric, judgePCIe,
}

// Evaluate returns the faults of a GPU at this moment. Unknown facts are no faults.
func Evaluate(f *Facts) []Reason {
	if f.GPU.Err != nil {
		// Its last XIDs explain the loss.
		return append([]Reason{judgeError(f.GPU.Err)}, judgeXIDs(f)...)
	}
	var reasons []Reason
	for _, rule := range rules {
		reasons = append(reasons, rule(f)...)
	}
	return reasons
}

// unreadable is a GPU without facts. Its workers may be well, and have probes of their own, so
// half the weight is left; the number is ours.
func unreadable(detail string) Reason {
	return Reason{Rule: "unreadable", State: Degraded, Weight: 0.5, TP: true, Action: Look, Detail: detail}
}

// lostGPU is a GPU that was present and is not.
func lostGPU(detail string) Reason {
	return Reason{Rule: "lost", State: Dead, Weight: 1, TP: false, Action: Reboot, Detail: detail}
}

// judgeError tells a lost GPU from an unreadable one. nvml.h: "fallen off the bus or has
// otherwise become inaccessible", "requires a reset before it can be used again".
func judgeError(err *nvml.Error) Reason {
	switch err.Code {
	case nvml.CodeLost:
		return lostGPU("the GPU is lost")
	case nvml.CodeResetRequired:
		return Reason{Rule: "lost", State: Dead, Weight: 1, Action: Reset, Detail: "the GPU requires a reset"}
	default:
		return unreadable(err.Error())
	}
}

// judgeRecovery reads the recovery action that the driver asks for: GPU memory error management,
// "Error recovery and response flags".
func judgeRecovery(f *Facts) []Reason {
	if !f.GPU.Recovery.OK || f.GPU.Recovery.Value == nvml.RecoveryNone {
		return nil
	}
	r := Reason{Rule: "recovery", Weight: 1, Detail: "the driver asks for: " + string(f.GPU.Recovery.Value)}
	switch f.GPU.Recovery.Value {
	case nvml.RecoveryReset: // "terminate all GPU processes, reset the GPU"
		r.State, r.Action = Dead, Reset
	case nvml.RecoveryReboot, nvml.RecoveryBusReset, nvml.RecoverySystemReboot:
		r.State, r.Action = Dead, Reboot
	case nvml.RecoveryIMEX: // memory of other nodes is out of reach
		r.State, r.Action = Degraded, Look
	default: // drain P2P, drain and reset, and future actions: "stop applications when convenient"
		r.State, r.Action = Draining, Reset
	}
	return []Reason{r}
}

// retiredWeight lets a GPU that needs a reset drain while others are idle. Its speed is
// unchanged: "unaffected applications can continue running without affecting accuracy and
// performance, and new workloads can be launched". A lower weight would predict twice the time
// and waste its prefix cache.
const retiredWeight = 0.9

// judgeRows reads row remapping, or page retirement on older GPUs. "RMA policy thresholds for
// row-remapping": a failure is a reason to replace the GPU.
func judgeRows(f *Facts) []Reason {
	var reasons []Reason
	if f.GPU.Rows.Failed.Or(false) {
		reasons = append(reasons, Reason{
			Rule: "rows", State: Draining, Weight: 1, TP: false, Action: Replace, Detail: "a row of memory could not be remapped",
		})
	}
	if f.GPU.Rows.Pending.Or(false) || f.GPU.Pages.Pending.Or(false) {
		reasons = append(reasons, Reason{
			Rule: "rows pending", State: Degraded, Weight: retiredWeight, TP: true, Action: ResetWhenIdle,
			Detail: "bad memory is replaced at the next reset",
		})
	}
	return reasons
}

// judgeECC reads new uncorrected errors. Corrected errors are no fault at any rate (XID 92, a
// high rate of them, is IGNORE in the catalogue).
func judgeECC(f *Facts) []Reason {
	if f.Uncorrected == 0 {
		return nil
	}
	return []Reason{{
		Rule: "ecc", State: Degraded, Weight: 0.5, TP: true, Action: Look,
		Detail: fmt.Sprintf("%d uncorrected memory errors since the last read", f.Uncorrected),
	}}
}

const (
	// slowdowns are never normal. nvml.h on the three in hardware: "reducing the core clocks by a
	// factor of 2 or more".
	slowdowns = nvml.HWSlowdown | nvml.HWThermal | nvml.PowerBrake | nvml.SWThermal
	// cappedShare is the lowest normal clock under the power cap: an H100 that multiplies
	// matrices at 700 W runs at 0.7 to 0.9 of its highest clock.
	cappedShare = 0.7
	// unknownShare is the assumed speed of a GPU in slowdown that is idle or has no clocks: the
	// factor 2 of nvml.h.
	unknownShare = 0.5
)

// judgeThrottle weighs a GPU by its share of its highest clock.
func judgeThrottle(f *Facts) []Reason {
	active := f.GPU.Throttle.Or(0)
	share := unknownShare
	if c := f.GPU.Clocks; c.SM.OK && c.SMMax.Or(0) > 0 && !active.Has(nvml.Idle) {
		share = min(float64(c.SM.Value)/float64(c.SMMax.Value), 1)
	} else if !active.Has(slowdowns) {
		return nil
	}
	if !active.Has(slowdowns) && (!active.Has(nvml.SWPowerCap) || share >= cappedShare) {
		return nil
	}
	r := Reason{Rule: "throttle", State: Degraded, Weight: roundDown(share), TP: true}
	r.Detail = fmt.Sprintf("clocks at %.0f %%: %s", share*100, active&^nvml.Idle)
	if active.Has(slowdowns) {
		r.Action = Look
	}
	return []Reason{r}
}

// roundDown rounds a share down to twentieths, so that noise is no change.
func roundDown(share float64) float64 {
	return math.Max(math.Floor(share*20+1e-9)/20, minWeight)
}

// scarceMemory is the share of free memory below which an allocation may fail and end an engine.
// SGLang leaves about a tenth free at start and uses it for activations; 2 % of 80 GiB are 1.6
// GiB. The number is ours.
const scarceMemory = 0.02

// judgeMemory reads memory pressure: without free memory, half the weight is left.
func judgeMemory(f *Facts) []Reason {
	m := f.GPU.Memory
	if !m.Free.OK || m.Total.Or(0) == 0 || f.GPU.MIG.Value.Enabled {
		return nil // MIG instances have the memory of a divided GPU
	}
	free := float64(m.Free.Value) / float64(m.Total.Value)
	if free >= scarceMemory {
		return nil
	}
	return []Reason{{
		Rule: "memory", State: Degraded, Weight: roundDown(0.5 + 0.5*free/scarceMemory), TP: true,
		Detail: fmt.Sprintf("%.1f %% of memory free", free*100),
	}}
}

// judgePCIe finds lost lanes of the link to the host. Generations fall while a GPU is idle; lanes
// do not. The cost depends on the use of host memory; a tenth is ours.
func judgePCIe(f *Facts) []Reason {
	p := f.GPU.PCIe
	if !p.Width.OK || !p.WidthMax.OK || p.Width.Value >= p.WidthMax.Value {
		return nil
	}
	return []Reason{{
		Rule: "pcie", State: Degraded, Weight: 0.9, TP: true, Action: Look,
		Detail: fmt.Sprintf("PCIe runs on %d of %d lanes", p.Width.Value, p.WidthMax.Value),
	}}
}
