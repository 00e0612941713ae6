package health

import (
	"fmt"

	"github.com/warmpath/warmpath/nvml"
)

// recoveries returns the number of recoveries on all links of a GPU.
func recoveries(g *nvml.GPU) uint64 {
	var sum uint64
	for i := range g.Links {
		sum += g.Links[i].Recoveries.Or(0) + g.Links[i].RecoveriesFailed.Or(0)
	}
	return sum
}

// judgeLinks takes a GPU with a link down out of tensor-parallel work: an all-reduce is as slow
// as the slowest GPU, and NCCL does not survive the loss of a link. Other work is not affected. A
// link that keeps recovering is up and slow; the fifth is ours.
func judgeLinks(f *Facts) []Reason {
	var reasons []Reason
	known := 0
	for i := range f.GPU.Links {
		if f.GPU.Links[i].Up.OK {
			known++
		}
	}
	// Links of unknown state are no fault.
	if up := f.GPU.LinksUp(); up < f.Links && known == len(f.GPU.Links) {
		reasons = append(reasons, Reason{
			Rule: "nvlink", State: Degraded, Weight: 1, TP: false, Action: Look, Detail: fmt.Sprintf("%d of %d NVLinks up", up, f.Links),
		})
	}
	if f.Recoveries > 0 {
		reasons = append(reasons, Reason{
			Rule: "nvlink errors", State: Degraded, Weight: 0.8, TP: true, Action: Look,
			Detail: fmt.Sprintf("NVLink recovered %d times since the last read", f.Recoveries),
		})
	}
	return reasons
}

// judgeFabric reads the findings of the fabric manager (NVML_GPU_FABRIC_*). A GPU that has not
// joined its fabric cannot reach the others.
func judgeFabric(f *Facts) []Reason {
	if !f.GPU.Fabric.OK {
		return nil
	}
	fabric := f.GPU.Fabric.Value
	h := fabric.Health
	r := Reason{Rule: "fabric", State: Degraded, Weight: 1, TP: false, Action: Look}
	switch {
	case fabric.State != "completed":
		r.Detail = "joining the NVSwitch fabric: " + fabric.State
	case fabric.Status != 0:
		r.Detail = fmt.Sprintf("joining the NVSwitch fabric failed (%d)", fabric.Status)
	case h.Misconfigured.Or("no") != "no":
		r.Detail = "fabric: " + h.Misconfigured.Value
	case h.RouteUnhealthy.Or(false):
		r.Detail = "fabric: a route is unhealthy"
	case h.Summary.Value == "unhealthy":
		r.Detail = "fabric: unhealthy"
	case h.BandwidthDegraded.Or(false), h.Summary.Value == "limited capacity":
		r.TP, r.Weight, r.Detail = true, 0.8, "fabric: bandwidth is degraded"
	default:
		return nil
	}
	return []Reason{r}
}
