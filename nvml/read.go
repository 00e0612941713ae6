//go:build cgo && linux

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// readLocked reads one GPU.
func (r *Reader) readLocked(index int) GPU {
	g := GPU{Index: index}
	device, ret := r.api.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		g.Err = fmt.Errorf("cannot open GPU %d: %w", index, toError(ret))
		return g
	}
	if r.hasLocked("nvmlDeviceGetUUID") {
		g.UUID = field(device.GetUUID())
	}
	if r.hasLocked("nvmlDeviceGetName") {
		g.Name = field(device.GetName())
	}
	if r.hasLocked("nvmlDeviceGetUtilizationRates") {
		use, ret := device.GetUtilizationRates()
		g.Utilization = field(int(use.Gpu), ret)
	}
	r.readMemoryLocked(device, &g)
	r.readLinksLocked(device, &g)
	return g
}

// readMemoryLocked prefers the second version of the call, which keeps the driver's own share apart.
func (r *Reader) readMemoryLocked(device nvml.Device, g *GPU) {
	if r.hasLocked("nvmlDeviceGetMemoryInfo_v2") {
		if m, ret := device.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			g.MemoryTotal = Field[uint64]{m.Total, true}
			g.MemoryUsed = Field[uint64]{m.Used, true}
			g.MemoryReserved = Field[uint64]{m.Reserved, true}
			return
		}
	}
	if r.hasLocked("nvmlDeviceGetMemoryInfo") {
		m, ret := device.GetMemoryInfo()
		g.MemoryTotal, g.MemoryUsed = field(m.Total, ret), field(m.Used, ret)
	}
}

// readLinksLocked counts NVLinks. Links are numbered from 0 without holes, and the first number that the GPU does not
// have is refused.
func (r *Reader) readLinksLocked(device nvml.Device, g *GPU) {
	if !r.hasLocked("nvmlDeviceGetNvLinkState") {
		return
	}
	links, active := 0, 0
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := device.GetNvLinkState(link)
		if ret != nvml.SUCCESS {
			break
		}
		links++
		if state == nvml.FEATURE_ENABLED {
			active++
		}
	}
	if links > 0 {
		g.NVLinks, g.NVLinksActive = Field[int]{links, true}, Field[int]{active, true}
	}
}
