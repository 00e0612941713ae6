//go:build cgo && linux

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// listened are the events that call for a read at once. Corrected ECC errors are not among them: they come in
	// thousands and are counted anyway.
	listened = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeGpuUnavailableError |
		nvml.EventTypeGpuRecoveryAction
	// keptXIDs is how many XIDs of a GPU are kept; those of one fault are rarely more than five.
	keptXIDs = 32
	// drained is how many events one wait takes; a crashing program makes one for each of its channels.
	drained = 256
	// noInstance is what NVML says where an XID is about the whole GPU.
	noInstance = 0xFFFFFFFF
)

// startEvents listens for the events of all GPUs that answer. Called at each read, it takes in those that came back.
func (d *driver) startEvents() {
	for _, symbol := range []string{
		// go-nvml fills the second version's structure, with the MIG instance.
		"nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlEventSetFree", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes",
	} {
		if !d.has(symbol) {
			return
		}
	}
	if d.set == nil {
		set := ask(d, "nvmlEventSetCreate", d.api.EventSetCreate)
		if !set.OK {
			return
		}
		d.set = set.Value
	}
	for _, g := range d.gpus {
		if g.listen || g.fail != nvml.SUCCESS {
			continue
		}
		// Whatever the answer, it is not asked again before the GPU was lost: a GPU too old for events stays so.
		g.listen = true
		can := get(g, "nvmlDeviceGetSupportedEventTypes", g.GetSupportedEventTypes)
		if types := can.Value & listened; types != 0 {
			get(g, "nvmlDeviceRegisterEvents", func() (struct{}, nvml.Return) { return struct{}{}, g.RegisterEvents(types, d.set) })
		}
	}
}

// stopEvents frees the set; no call on it is under way, for one goroutine makes them all.
func (d *driver) stopEvents() {
	if d.set == nil {
		return
	}
	d.begin("nvmlEventSetFree")
	_ = d.set.Free()
	d.call.Store(nil)
	d.set = nil
	for _, g := range d.gpus {
		g.listen = false
	}
}

// wait takes the events that come within the time.
func (d *driver) wait(limit time.Duration, stop <-chan struct{}) bool {
	if !d.ready || d.set == nil {
		pause(limit, stop)
		return false
	}
	for n := range drained {
		timeout := uint32(0)
		if n == 0 {
			timeout = uint32(max(limit.Milliseconds(), 1))
		}
		d.begin("nvmlEventSetWait_v2")
		event, ret := d.set.Wait(timeout)
		d.end(ret)
		switch ret {
		case nvml.SUCCESS:
			d.note(&event)
		case nvml.ERROR_TIMEOUT:
			return n > 0
		case nvml.ERROR_UNINITIALIZED:
			return true // the read finds out
		default:
			// A lost GPU spoils the whole set: the next read makes another, without that GPU. What others report until then
			// is not heard, so it follows at once.
			d.stopEvents()
			if ret != nvml.ERROR_GPU_IS_LOST {
				pause(limit, stop)
			}
			return true
		}
	}
	return true
}

// note remembers an XID.
func (d *driver) note(event *nvml.EventData) {
	if event.EventType != nvml.EventTypeXidCriticalError {
		return
	}
	for _, g := range d.gpus {
		if g.Device != event.Device {
			continue
		}
		x := XID{Code: int(event.EventData), At: time.Now()}
		if event.GpuInstanceId != noInstance {
			x.Instance = Some(int(event.GpuInstanceId))
		}
		if g.xids = append(g.xids, x); len(g.xids) > keptXIDs {
			g.xids = g.xids[1:]
		}
	}
}
