package nvml

import "fmt"

// Link is one NVLink of a GPU. Bytes are counted since the driver was loaded; rates are between
// two reads.
type Link struct {
	Index       int          `json:"index"`
	Up          Opt[bool]    `json:"up"`
	Version     Opt[string]  `json:"version"` // of NVLink, for instance 4.0
	Remote      Opt[string]  `json:"remote"`  // kind of the other end: gpu, switch or cpu
	Speed       Opt[int]     `json:"speed"`   // MB/s in one direction, as trained
	Sent        Opt[uint64]  `json:"sent"`
	Received    Opt[uint64]  `json:"received"`
	SendRate    Opt[float64] `json:"send_rate"` // bytes a second
	ReceiveRate Opt[float64] `json:"receive_rate"`
	// The next three do not exist on Blackwell, the last one only there: see the ids in fields.go.
	Replays          Opt[uint64] `json:"replays"`
	Recoveries       Opt[uint64] `json:"recoveries"` // on Blackwell too, from another counter
	CRC              Opt[uint64] `json:"crc"`
	RecoveriesFailed Opt[uint64] `json:"recoveries_failed"`
}

// LinksUp counts the NVLinks that are up.
func (g *GPU) LinksUp() (up int) {
	for i := range g.Links {
		if g.Links[i].Up.Or(false) {
			up++
		}
	}
	return up
}

// linkVersions maps nvmlNvlinkVersion_t.
var linkVersions = []string{"", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0", "6.0"}

// named is the name of a code, or the number of one that NVML has added since.
func named[N ~int | ~uint32 | ~uint64](names []string, code N) string {
	if uint64(code) < uint64(len(names)) {
		return names[code]
	}
	return fmt.Sprintf("unknown (%d)", code)
}

// Fabric is a GPU's membership in an NVSwitch fabric. A GPU that belongs to one and has not
// joined it cannot run CUDA.
type Fabric struct {
	State  string `json:"state"`  // not started, in progress, completed
	Status int    `json:"status"` // nvmlReturn_t of joining; valid once State is completed
	Health Health `json:"health"`
}

// Health is the fabric manager's judgement of this GPU; aspects that it does not judge are
// unknown.
type Health struct {
	Summary           Opt[string] `json:"summary"` // healthy, unhealthy, limited capacity
	BandwidthDegraded Opt[bool]   `json:"bandwidth_degraded"`
	RouteUnhealthy    Opt[bool]   `json:"route_unhealthy"`
	Misconfigured     Opt[string] `json:"misconfigured"` // how, or "no"
}

// The codes of NVML_GPU_FABRIC_*, by number.
var (
	fabricStates     = []string{"not supported", "not started", "in progress", "completed"}
	fabricSummaries  = []string{"", "healthy", "unhealthy", "limited capacity"}
	fabricMisconfigs = []string{
		"", "no", "incorrect system GUID", "incorrect chassis serial number", "no partition", "insufficient NVLinks",
		"incompatible GPU firmware", "invalid location", "invalid GPU state",
	}
)

// decodeHealth decodes NVML_GPU_FABRIC_HEALTH_MASK_*. Its ternary fields are two bits wide: 1
// is yes, 2 is no, and other values are not judged.
func decodeHealth(mask uint32, summary uint8) Health {
	ternary := func(shift int) Opt[bool] {
		v := mask >> shift & 3
		return Opt[bool]{v == 1, v == 1 || v == 2}
	}
	misconfigured := mask >> 8 & 15
	return Health{
		Summary:           Opt[string]{named(fabricSummaries, uint32(summary)), summary != 0},
		BandwidthDegraded: ternary(0),
		RouteUnhealthy:    ternary(4),
		Misconfigured:     Opt[string]{named(fabricMisconfigs, misconfigured), misconfigured != 0},
	}
}
