package health

import (
	"fmt"
	"math"
	"time"

	"github.com/warmpath/warmpath/nvml"
)

// Facts are what the rules judge: one GPU as it was read, and what was seen of it before.
type Facts struct {
	Now         time.Time
	GPU         *nvml.GPU
	Links       int    // how many NVLinks it should have up
	Uncorrected uint64 // uncorrected ECC errors since the last read
	Recoveries  uint64 // NVLink recoveries since the last read
}

// The rules in the order in which they are asked; the rest says nothing about a GPU that does not answer.
var rules = []func(*Facts) []Reason{
	judgeXIDs, judgeRecovery, judgeRows, judgeECC, judgeThrottle, judgeMemory, judgeLinks, judgeFabric, judgePCIe,
}

// Judge says what is wrong with a GPU at this moment; nothing when it is well. A fact that is not known is not held
// against it.
func Judge(f *Facts) []Reason {
	if f.GPU.Err != nil {
		// What it reported before it was lost says why.
		return append([]Reason{judgeError(f.GPU.Err)}, judgeXIDs(f)...)
	}
	var reasons []Reason
	for _, rule := range rules {
		reasons = append(reasons, rule(f)...)
	}
	return reasons
}

// unreadable is a GPU about which nothing is known now. Its workers may compute well, and are probed apart, so it is no
// more than doubted; the half is ours.
func unreadable(detail string) Reason {
	return Reason{Rule: "unreadable", State: Degraded, Weight: 0.5, TP: true, Action: Look, Detail: detail}
}

// gone is a GPU that was there and is not.
func gone(detail string) Reason {
	return Reason{Rule: "lost", State: Dead, Weight: 1, TP: false, Action: Reboot, Detail: detail}
}

// judgeError tells a GPU that is lost from one that may not be read. nvml.h: "fallen off the bus or has otherwise become
// inaccessible", "requires a reset before it can be used again".
func judgeError(err *nvml.Error) Reason {
	switch err.Code {
	case nvml.CodeLost:
		return gone("the GPU is lost")
	case nvml.CodeResetRequired:
		return Reason{Rule: "lost", State: Dead, Weight: 1, Action: Reset, Detail: "the GPU requires a reset"}
	default:
		return unreadable(err.Error())
	}
}

// judgeRecovery passes on what the driver itself asks for: GPU memory error management, "Error recovery and response
// flags".
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
	case nvml.RecoveryIMEX: // memory of other nodes cannot be reached; its own can
		r.State, r.Action = Degraded, Look
	default: // drain P2P, drain and reset, and what comes later: no new work, "stop applications when convenient"
		r.State, r.Action = Draining, Reset
	}
	return []Reason{r}
}

// retiredWeight is a nudge, so that a GPU that wants a reset empties when others are idle. It is as fast as ever: "unaffected
// applications can continue running without affecting accuracy and performance, and new workloads can be launched". A lower weight would have
// choices predict twice the time and give up its cache.
const retiredWeight = 0.9

// judgeRows reads row remapping, and page retirement where that is what the GPU has. "RMA policy thresholds for
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

// judgeECC counts uncorrected errors as they happen. Corrected ones are what ECC is for: no number of them is a fault
// (XID 92, a high rate of them, is IGNORE in the catalogue).
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
	// slowdowns are never normal. nvml.h of the three in hardware: "reducing the core clocks by a factor of 2 or more".
	slowdowns = nvml.HWSlowdown | nvml.HWThermal | nvml.PowerBrake | nvml.SWThermal
	// An H100 that multiplies matrices at 700 W runs at 0.7 to 0.9 of its highest clock with the power cap active; only
	// below that is it short of power.
	cappedShare = 0.7
	// unknownShare stands for the speed of a GPU in slowdown that is idle or tells no clocks: the factor 2 of nvml.h.
	unknownShare = 0.5
)

// judgeThrottle weighs a GPU by the share of its clock that it is left with.
func judgeThrottle(f *Facts) []Reason {
	why := f.GPU.Throttle.Or(0)
	share := unknownShare
	if c := f.GPU.Clocks; c.SM.OK && c.SMMax.Or(0) > 0 && !why.Has(nvml.Idle) {
		share = min(float64(c.SM.Value)/float64(c.SMMax.Value), 1)
	} else if !why.Has(slowdowns) {
		return nil
	}
	if !why.Has(slowdowns) && (!why.Has(nvml.SWPowerCap) || share >= cappedShare) {
		return nil
	}
	r := Reason{Rule: "throttle", State: Degraded, Weight: step(share), TP: true}
	r.Detail = fmt.Sprintf("clocks at %.0f %%: %s", share*100, why&^nvml.Idle)
	if why.Has(slowdowns) {
		r.Action = Look
	}
	return []Reason{r}
}

// step rounds a share down to twentieths, so that noise in it is not a change.
func step(share float64) float64 {
	return math.Max(math.Floor(share*20+1e-9)/20, minWeight)
}

// scarce is the share of memory below which an allocation at run time may fail, which ends an engine. SGLang leaves about
// a tenth free at start and uses it for activations; 2 % of 80 GiB are 1.6 GiB. The number is ours.
const scarce = 0.02

// judgeMemory counts memory pressure: at no free memory at all, half the weight is left.
func judgeMemory(f *Facts) []Reason {
	m := f.GPU.Memory
	if !m.Free.OK || m.Total.Or(0) == 0 || f.GPU.MIG.Value.Enabled {
		return nil // of a divided GPU, the instances have the memory
	}
	free := float64(m.Free.Value) / float64(m.Total.Value)
	if free >= scarce {
		return nil
	}
	return []Reason{{
		Rule: "memory", State: Degraded, Weight: step(0.5 + 0.5*free/scarce), TP: true,
		Detail: fmt.Sprintf("%.1f %% of memory free", free*100),
	}}
}

// judgePCIe sees a link to the host that lost lanes. Generations fall when a GPU is idle; lanes do not. What it costs
// depends on the use of host memory, so a tenth is a nudge and no measure.
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
