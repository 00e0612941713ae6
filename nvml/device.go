//go:build cgo && linux

package nvml

import (
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// device is a GPU's state between reads.
type device struct {
	nvml.Device
	d      *driver
	slow   GPU            // facts that hardly ever change, as last read
	last   GPU            // the last read in which it answered, for rates
	lastAt time.Time      // when that was
	since  time.Time      // it has answered since then; zero while it does not
	plan   []plannedField // the field values that it supports, as far as known
	xids   []XID
	listen bool // registered for events
	fail   nvml.Return
}

// get makes a call on the GPU, and records its loss.
func get[T any](g *device, symbol string, f func() (T, nvml.Return)) Opt[T] {
	if g.fail != nvml.SUCCESS {
		return Opt[T]{}
	}
	return ask(g.d, symbol, func() (T, nvml.Return) {
		v, ret := f()
		if ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED {
			g.fail = ret
		}
		return v, ret
	})
}

// number makes a call that returns a number of any type.
func number[N ~int32 | ~uint32 | ~int](g *device, symbol string, f func() (N, nvml.Return)) Opt[int] {
	v := get(g, symbol, f)
	return Opt[int]{int(v.Value), v.OK}
}

// readGPUs reads all GPUs: handles, then the slow facts where they are due, then the others.
func (d *driver) readGPUs(count int, now time.Time) []GPU {
	for len(d.gpus) < count {
		d.gpus = append(d.gpus, &device{d: d})
		d.slowAt = time.Time{}
	}
	d.gpus = d.gpus[:count]
	slow := !now.Before(d.slowAt)
	for i, g := range d.gpus {
		// A GPU that comes back may have other remote ends of its links.
		slow = g.find(i, now) || slow
	}
	if slow {
		d.slowAt = now.Add(slowEvery)
		for i, g := range d.gpus {
			g.readSlow(i)
		}
	}
	d.events.start()
	gpus := make([]GPU, count)
	for i, g := range d.gpus {
		gpus[i] = g.read(i)
	}
	return gpus
}

// find gets the handle, and reports whether the GPU answers for the first time since a loss.
func (g *device) find(index int, now time.Time) bool {
	g.fail = nvml.SUCCESS
	g.d.begin("nvmlDeviceGetHandleByIndex_v2")
	handle, ret := g.d.api.DeviceGetHandleByIndex(index)
	g.d.end(ret)
	if g.fail = ret; ret != nvml.SUCCESS {
		g.since = time.Time{}
		return false
	}
	g.Device = handle
	if !g.since.IsZero() {
		return false
	}
	g.since = now
	return true
}

// readSlow reads the facts that hardly ever change. A GPU that does not answer keeps the known
// ones.
func (g *device) readSlow(index int) {
	if g.fail != nvml.SUCCESS {
		return
	}
	s := GPU{
		Index: index,
		UUID:  get(g, "nvmlDeviceGetUUID", g.GetUUID),
		Name:  get(g, "nvmlDeviceGetName", g.GetName),
	}
	// go-nvml fills the third version's structure, of which an older function leaves the bus id
	// empty.
	if pci := get(g, "nvmlDeviceGetPciInfo_v3", g.GetPciInfo); pci.OK {
		s.Bus = Some(text(pci.Value.BusId[:]))
	}
	s.Clocks.SMMax = number(g, "nvmlDeviceGetMaxClockInfo", func() (uint32, nvml.Return) { return g.GetMaxClockInfo(nvml.CLOCK_SM) })
	s.PCIe.GenerationMax = number(g, "nvmlDeviceGetMaxPcieLinkGeneration", g.GetMaxPcieLinkGeneration)
	s.PCIe.WidthMax = number(g, "nvmlDeviceGetMaxPcieLinkWidth", g.GetMaxPcieLinkWidth)
	s.Links = g.findLinks()
	if g.fail != nvml.SUCCESS {
		return
	}
	g.slow = s
	// Refused fields are retried once a minute: a driver refuses some while it starts.
	g.plan = planFields(len(s.Links))
}

// read reads the other facts.
func (g *device) read(index int) GPU {
	v := g.slow
	v.Index, v.Links, v.XIDs = index, slices.Clone(v.Links), slices.Clone(g.xids)
	if g.fail == nvml.SUCCESS {
		g.readFast(&v)
	}
	if g.fail != nvml.SUCCESS {
		g.since = time.Time{}
		g.listen = false // its events end with it
		// Only its name is carried over: old numbers that look new are worse than none.
		return GPU{Index: index, UUID: v.UUID, Name: v.Name, Bus: v.Bus, Err: toError(g.fail), XIDs: v.XIDs}
	}
	v.Since = g.since
	g.rates(&v, time.Since(g.lastAt).Seconds())
	g.last, g.lastAt = v, time.Now()
	return v
}

// readFast makes the calls of each read. A lost GPU skips the remaining calls, each of which
// could last as long as the driver's timeout.
func (g *device) readFast(v *GPU) {
	v.Memory = g.readMemory()
	if use := get(g, "nvmlDeviceGetUtilizationRates", g.GetUtilizationRates); use.OK {
		v.Utilization = Utilization{Some(int(use.Value.Gpu)), Some(int(use.Value.Memory))}
	}
	v.Temperature.GPU = g.readTemperature()
	v.Clocks.SM = number(g, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return g.GetClockInfo(nvml.CLOCK_SM) })
	v.Clocks.Memory = number(g, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return g.GetClockInfo(nvml.CLOCK_MEM) })
	v.Power.Draw = number(g, "nvmlDeviceGetPowerUsage", g.GetPowerUsage)
	v.Power.Limit = number(g, "nvmlDeviceGetEnforcedPowerLimit", g.GetEnforcedPowerLimit)
	v.Throttle = g.readThrottle()
	v.PCIe.Generation = number(g, "nvmlDeviceGetCurrPcieLinkGeneration", g.GetCurrPcieLinkGeneration)
	v.PCIe.Width = number(g, "nvmlDeviceGetCurrPcieLinkWidth", g.GetCurrPcieLinkWidth)
	g.readLinks(v)
	g.readFields(v)
	v.Fabric = g.readFabric()
	v.MIG = g.readMIG()
	v.Processes = g.readProcesses()
}

// processLists are the versions of the call; go-nvml makes the newest in the library.
var processLists = []string{
	"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
	"nvmlDeviceGetComputeRunningProcesses",
}

// unknownMemory is NVML_VALUE_NOT_AVAILABLE.
const unknownMemory = 1<<64 - 1

// readProcesses lists the compute processes on the GPU.
func (g *device) readProcesses() Opt[[]Process] {
	for _, symbol := range processLists {
		if !g.d.has(symbol) {
			continue
		}
		list := get(g, symbol, g.GetComputeRunningProcesses)
		if !list.OK {
			return Opt[[]Process]{}
		}
		all := make([]Process, len(list.Value))
		for i, p := range list.Value {
			all[i] = Process{PID: int(p.Pid), Memory: Opt[uint64]{p.UsedGpuMemory, p.UsedGpuMemory != unknownMemory}}
		}
		return Some(all)
	}
	return Opt[[]Process]{}
}

// readMemory prefers the second version of the call, which counts the driver's own share
// separately.
func (g *device) readMemory() Memory {
	if m := get(g, "nvmlDeviceGetMemoryInfo_v2", g.GetMemoryInfo_v2); m.OK {
		return Memory{Some(m.Value.Total), Some(m.Value.Free), Some(m.Value.Used), Some(m.Value.Reserved)}
	}
	if m := get(g, "nvmlDeviceGetMemoryInfo", g.GetMemoryInfo); m.OK {
		return Memory{Total: Some(m.Value.Total), Free: Some(m.Value.Free), Used: Some(m.Value.Used)}
	}
	return Memory{}
}

// readTemperature prefers the current call; older drivers have only the deprecated one.
func (g *device) readTemperature() Opt[int] {
	if t := get(g, "nvmlDeviceGetTemperatureV", g.GetTemperatureV().V1); t.OK {
		return Some(int(t.Value.Temperature))
	}
	return number(g, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return g.GetTemperature(nvml.TEMPERATURE_GPU) })
}

// readThrottle prefers the current call; drivers before R535 have only its old name.
func (g *device) readThrottle() Opt[Throttle] {
	t := get(g, "nvmlDeviceGetCurrentClocksEventReasons", g.GetCurrentClocksEventReasons)
	if !t.OK {
		t = get(g, "nvmlDeviceGetCurrentClocksThrottleReasons", g.GetCurrentClocksThrottleReasons)
	}
	return Opt[Throttle]{Throttle(t.Value), t.OK}
}

// text is a C string in a fixed array.
func text(chars []int8) string {
	var b []byte
	for _, c := range chars {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
