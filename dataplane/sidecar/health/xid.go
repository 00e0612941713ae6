package health

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/nvml"
)

// kind classifies XIDs by the immediate action in NVIDIA's catalogue.
type kind int

const (
	unknown     kind = iota // not in the catalogue, or without an action there
	application             // RESTART_APP or IGNORE: the GPU is healthy
	contained               // RESTART_APP after bad memory: the program is gone, the GPU works on
	retired                 // memory is taken out of use by the next reset
	drain                   // RESET_GPU, while running work may still end well
	dead                    // RESET_GPU or RESTART_BM, and the GPU cannot compute
	link                    // an NVLink failed
)

// xid is an entry of the catalogue.
type xid struct {
	kind kind
	name string
	// linked XIDs are followed by XID 154 and the recovery action since R565 (the catalogue's
	// column "Xid 154 linkage"), so a recovery action of "none" ends them.
	linked bool
}

// catalogue has all XIDs that are not application-level, with the names and actions for H100
// where GPUs differ.
var catalogue = map[int]xid{
	46: {dead, "GPU stopped processing", false},
	// WORKFLOW_XID_48: see containedECC.
	48: {dead, "uncorrectable ECC error", true},
	54: {unknown, "auxiliary power is not connected", false}, // CHECK_MECHANICALS
	// Of GPUs before Ampere; "unused" there.
	61:  {drain, "internal micro-controller breakpoint", false},
	62:  {dead, "internal micro-controller halt", true},
	63:  {retired, "row remapping or page retirement recorded", true}, // IGNORE
	64:  {drain, "row remapping or page retirement failed", true},
	74:  {link, "NVLink error", true},
	79:  {dead, "GPU has fallen off the bus", true},
	94:  {contained, "contained memory error", true},
	95:  {dead, "uncontained memory error", true},
	109: {dead, "context switch timeout", true}, // RESET_GPU, and its programs hang
	110: {dead, "security fault", true},
	119: {dead, "GSP RPC timeout", false},
	120: {dead, "GSP error", true},
	136: {link, "NVLink training failed", true},
	140: {dead, "unrecovered ECC error", false},
	143: {dead, "GPU initialization failed", true},
	// 144 to 150 are NVLink 5. NVML hides the sub-codes that ask for a reset, so each takes the
	// link out.
	144: {link, "NVLink SAW error", true},
	145: {link, "NVLink RLW error", true},
	146: {link, "NVLink TLW error", true},
	149: {link, "NVLink NETIR error", true},
	150: {link, "NVLink MSE error", true},
	151: {drain, "key rotation failed", false}, // RESTART_VM: of confidential computing
	155: {link, "NVLink software-defined error", true},
	// RESET_GPU, and until then the resource is merely not used.
	156: {retired, "resource retirement recorded", true},
	// IGNORE there, and yet memory known to be bad stays in use.
	157: {drain, "resource retirement failed", false},
	158: {dead, "GPU fatal timeout", false},
	159: {unknown, "error on the link to the processor", false}, // CHECK_UVM
	// Without an action there. Faults of the memory come with 48, 94 or 95.
	167: {unknown, "PCIe fatal timeout", false},
	168: {unknown, "less GPU memory than there should be", false},
	169: {unknown, "security processor halt", false},
	171: {unknown, "uncorrectable error of the memory", false},
	172: {unknown, "uncorrectable error of the SRAM", false},
}

// applicationLevel are all other codes with RESTART_APP or IGNORE, and 154, which the recovery
// action tells apart. NVIDIA's device plugin for Kubernetes ignores 13, 31, 43, 45 and 68.
var applicationLevel = ranges{
	{8, 8},
	{11, 11},
	{13, 14},
	{25, 25},
	{31, 32},
	{37, 41},
	{43, 45},
	{60, 60},
	{65, 73},
	{75, 77},
	{80, 80},
	{82, 86},
	{88, 89},
	{92, 93},
	{96, 108},
	{121, 121},
	{126, 135},
	{137, 137},
	{139, 139},
	{141, 142},
	{147, 148},
	{152, 154},
	{160, 166},
}

// ranges are closed intervals of codes.
type ranges [][2]int

func (r ranges) has(code int) bool {
	for _, pair := range r {
		if code >= pair[0] && code <= pair[1] {
			return true
		}
	}
	return false
}

// classify returns the entry of a code.
func classify(code int) xid {
	if x, ok := catalogue[code]; ok {
		return x
	}
	if applicationLevel.has(code) {
		return xid{application, "application error", false}
	}
	return xid{unknown, "not in the catalogue", false}
}

// Times after which an XID without another end is over. The numbers are ours.
const (
	// containedHold: a worker that lost its process is back within minutes, and has probes of its
	// own.
	containedHold = 5 * time.Minute
	// unknownHold: caution for an unknown XID.
	unknownHold = 10 * time.Minute
	// fatalHold: a GPU that works for an hour after such an XID was reset unnoticed.
	fatalHold = time.Hour
	// recoveryDelay: the driver sets the recovery action some seconds after the XID.
	recoveryDelay = 30 * time.Second
	// sameFault: XIDs of one fault come within milliseconds; NVIDIA's workflow for XID 48 looks
	// for 63, 64, 94 and 95 beside it.
	sameFault = 10 * time.Second
)

// containedECC reports whether the GPU contained an XID 48: with a 94 beside it and no 95, only the
// program that touched the bad memory is gone (GPU memory error management, "Error containment").
func containedECC(x nvml.XID, all []nvml.XID) bool {
	contained := false
	for _, other := range all {
		if other.At.Sub(x.At).Abs() > sameFault {
			continue
		}
		switch other.Code {
		case 94:
			contained = true
		case 95:
			return false
		}
	}
	return contained
}

// judgeXIDs returns one reason for each code in effect, by its newest XID.
func judgeXIDs(f *Facts) []Reason {
	newest := map[int]xid{}
	for _, x := range f.GPU.XIDs {
		// Older ones were before a reset: the driver was reloaded, or the GPU came back.
		if x.At.Before(f.GPU.Since) {
			continue
		}
		entry := classify(x.Code)
		if x.Code == 48 && containedECC(x, f.GPU.XIDs) {
			entry.kind = contained
		}
		if entry.counts(f, f.Now.Sub(x.At)) {
			newest[x.Code] = entry
		}
	}
	reasons := make([]Reason, 0, len(newest))
	for code, entry := range newest {
		reasons = append(reasons, entry.reason(code))
	}
	return reasons
}

// counts reports whether an XID of this age is in effect.
func (x xid) counts(f *Facts, age time.Duration) bool {
	switch x.kind {
	case application:
		return false
	case contained:
		return age < containedHold
	case unknown:
		return age < unknownHold
	case retired:
		// Without pending rows the reset has happened.
		return age < fatalHold && f.GPU.Rows.Pending != nvml.Some(false)
	default:
		over := x.linked && age > recoveryDelay && f.GPU.Recovery == nvml.Some(nvml.RecoveryNone)
		return age < fatalHold && !over
	}
}

// reason returns the fault of the XID.
func (x xid) reason(code int) Reason {
	r := Reason{Rule: fmt.Sprintf("xid %d", code), Weight: 1, TP: true, Detail: fmt.Sprintf("XID %d: %s", code, x.name)}
	switch x.kind {
	case contained:
		r.State, r.Weight = Degraded, 0.5
	case retired:
		r.State, r.Weight, r.Action = Degraded, retiredWeight, ResetWhenIdle
	case drain:
		r.State, r.TP, r.Action = Draining, false, Reset
	case dead:
		r.State, r.TP, r.Action = Dead, false, Reset
		if code == 79 {
			r.Action = Reboot // RESTART_BM
		}
	case link:
		r.State, r.TP, r.Action = Degraded, false, Reset
	default:
		r.State, r.Weight, r.Action = Degraded, 0.8, Look
	}
	return r
}
