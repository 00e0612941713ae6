//go:build cgo && linux

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// findLinks lists the GPU's NVLinks with their constant facts. Links are numbered from 0
// without gaps; the driver refuses the first number beyond them.
func (g *device) findLinks() []Link {
	var links []Link
	for i := range nvml.NVLINK_MAX_LINKS {
		if !g.linkState(i).OK {
			break
		}
		l := Link{Index: i}
		version := number(g, "nvmlDeviceGetNvLinkVersion", func() (uint32, nvml.Return) { return g.GetNvLinkVersion(i) })
		if version.OK && version.Value != 0 {
			l.Version = Some(named(linkVersions, version.Value))
		}
		kind := number(g, "nvmlDeviceGetNvLinkRemoteDeviceType", func() (nvml.IntNvLinkDeviceType, nvml.Return) {
			return g.GetNvLinkRemoteDeviceType(i)
		})
		switch nvml.IntNvLinkDeviceType(kind.Value) {
		case nvml.NVLINK_DEVICE_TYPE_GPU:
			l.Remote = Opt[string]{"gpu", kind.OK}
		case nvml.NVLINK_DEVICE_TYPE_IBMNPU:
			l.Remote = Some("cpu")
		case nvml.NVLINK_DEVICE_TYPE_SWITCH:
			l.Remote = Some("switch")
		}
		links = append(links, l)
	}
	return links
}

// linkState uses the call and not the field FI_DEV_NVLINK_GET_STATE, because every driver with
// NVLink has the call.
func (g *device) linkState(link int) Opt[bool] {
	s := get(g, "nvmlDeviceGetNvLinkState", func() (nvml.EnableState, nvml.Return) { return g.GetNvLinkState(link) })
	return Opt[bool]{s.Value == nvml.FEATURE_ENABLED, s.OK}
}

// readLinks reads the state of the links; readFields reads their counters.
func (g *device) readLinks(v *GPU) {
	for i := range v.Links {
		v.Links[i].Up = g.linkState(i)
	}
}

// readFabric asks with the third version of the structure, or the second for older drivers. A
// GPU without a fabric reports that in its state.
func (g *device) readFabric() Opt[Fabric] {
	const symbol = "nvmlDeviceGetGpuFabricInfoV"
	if !g.d.has(symbol) {
		return Opt[Fabric]{}
	}
	info := get(g, symbol, g.GetGpuFabricInfoV().V3)
	if !info.OK {
		old := get(g, symbol, g.GetGpuFabricInfoV().V2)
		info.OK = old.OK
		info.Value.State, info.Value.Status, info.Value.HealthMask = old.Value.State, old.Value.Status, old.Value.HealthMask
	}
	if !info.OK || info.Value.State == nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
		return Opt[Fabric]{}
	}
	return Some(Fabric{
		State: named(fabricStates, uint32(info.Value.State)), Status: int(info.Value.Status),
		Health: decodeHealth(info.Value.HealthMask, info.Value.HealthSummary),
	})
}

// readMIG counts the GPU's MIG instances.
func (g *device) readMIG() Opt[MIG] {
	var pending int
	mode := number(g, "nvmlDeviceGetMigMode", func() (int, nvml.Return) {
		current, next, ret := g.GetMigMode()
		pending = next
		return current, ret
	})
	if !mode.OK {
		return Opt[MIG]{}
	}
	m := MIG{Enabled: mode.Value == nvml.DEVICE_MIG_ENABLE, Pending: pending == nvml.DEVICE_MIG_ENABLE}
	if !m.Enabled {
		return Some(m)
	}
	most := number(g, "nvmlDeviceGetMaxMigDeviceCount", g.GetMaxMigDeviceCount)
	for i := range most.Value {
		// The numbers of instances may have gaps.
		handle := get(g, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) {
			return g.GetMigDeviceHandleByIndex(i)
		})
		if handle.OK {
			m.Instances++
		}
	}
	return Some(m)
}
