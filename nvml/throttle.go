package nvml

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Throttle is a set of reasons for reduced clocks: nvmlClocksEventReasons.
type Throttle uint64

// The reasons. HWSlowdown, HWThermal and PowerBrake halve the clocks or worse (nvml.h);
// SWPowerCap is normal under full load.
const (
	Idle        Throttle = 1 << 0
	ClockLimit  Throttle = 1 << 1 // clocks set by an administrator or application
	SWPowerCap  Throttle = 1 << 2
	HWSlowdown  Throttle = 1 << 3 // temperature, power brake, or fast trigger
	SyncBoost   Throttle = 1 << 4
	SWThermal   Throttle = 1 << 5
	HWThermal   Throttle = 1 << 6
	PowerBrake  Throttle = 1 << 7 // asserted by the power supply
	DisplayMode Throttle = 1 << 8
)

// throttleNames are in bit order.
var throttleNames = []string{
	"idle", "clock_limit", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal", "hw_thermal",
	"power_brake", "display",
}

// Has reports whether t includes any of the reasons.
func (t Throttle) Has(reasons Throttle) bool { return t&reasons != 0 }

// Names lists the reasons; a reason that NVML adds later is named by its bit.
func (t Throttle) Names() []string {
	names := []string{}
	for bit := range 64 {
		if t>>bit&1 == 0 {
			continue
		}
		if bit < len(throttleNames) {
			names = append(names, throttleNames[bit])
		} else {
			names = append(names, fmt.Sprintf("bit_%d", bit))
		}
	}
	return names
}

// String joins the names.
func (t Throttle) String() string { return strings.Join(t.Names(), ", ") }

// MarshalJSON writes the names.
func (t Throttle) MarshalJSON() ([]byte, error) { return json.Marshal(t.Names()) }

// Recovery is the driver's advice for a faulty GPU: nvmlDeviceGpuRecoveryAction_t.
type Recovery string

// The recovery actions, as in NVIDIA's "GPU Memory Error Management", section "Error recovery
// and response flags".
const (
	RecoveryNone          Recovery = "none"
	RecoveryReset         Recovery = "reset GPU"
	RecoveryReboot        Recovery = "reboot node"
	RecoveryDrainP2P      Recovery = "drain peer-to-peer"
	RecoveryDrainAndReset Recovery = "drain and reset"
	RecoveryIMEX          Recovery = "recover IMEX domain"
	RecoveryBusReset      Recovery = "reset PCIe bus"
	RecoverySystemReboot  Recovery = "reboot system"
)

// recoveries are these by number.
var recoveries = []string{
	string(RecoveryNone), string(RecoveryReset), string(RecoveryReboot), string(RecoveryDrainP2P), string(RecoveryDrainAndReset), string(RecoveryIMEX),
	string(RecoveryBusReset), string(RecoverySystemReboot),
}
