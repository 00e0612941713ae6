//go:build cgo && linux

package nvml

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// eventTypes trigger a read at once. Corrected ECC errors are left out: they come in
	// thousands and are counted anyway.
	eventTypes = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError |
		nvml.EventTypeGpuUnavailableError | nvml.EventTypeGpuRecoveryAction
	// maxXIDs bounds the XIDs remembered of a GPU; those of one fault are rarely more than
	// five.
	maxXIDs = 32
	// eventBatch bounds the events of one wait; a crashing program makes one for each of its
	// channels.
	eventBatch = 256
	// noInstance is NVML's instance for an XID of a whole GPU.
	noInstance = 0xFFFFFFFF
)

// events listens for the events of a driver's GPUs.
type events struct {
	driver *driver
	set    nvml.EventSet // nil while not listening
}

// eventSymbols are the functions in use; go-nvml fills the structure of nvmlEventSetWait's
// second version, with the MIG instance.
var eventSymbols = []string{
	"nvmlEventSetCreate", "nvmlEventSetWait_v2", "nvmlEventSetFree",
	"nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes",
}

// start listens for the events of all GPUs that answer. Called at each read, it includes those
// that came back.
func (e *events) start() {
	d := e.driver
	for _, symbol := range eventSymbols {
		if !d.has(symbol) {
			return
		}
	}
	if e.set == nil {
		set := ask(d, "nvmlEventSetCreate", d.api.EventSetCreate)
		if !set.OK {
			return
		}
		e.set = set.Value
	}
	for _, g := range d.gpus {
		if g.listen || g.fail != nvml.SUCCESS {
			continue
		}
		// A GPU too old for events stays so: a refusal is not retried until the GPU was lost.
		g.listen = true
		supported := get(g, "nvmlDeviceGetSupportedEventTypes", g.GetSupportedEventTypes)
		if types := supported.Value & eventTypes; types != 0 {
			get(g, "nvmlDeviceRegisterEvents", func() (struct{}, nvml.Return) { return struct{}{}, g.RegisterEvents(types, e.set) })
		}
	}
}

// stop frees the set. One goroutine makes all calls, so none is waiting on it.
func (e *events) stop() {
	if e.set == nil {
		return
	}
	e.driver.begin("nvmlEventSetFree")
	_ = e.set.Free()
	e.driver.call.Store(nil)
	e.set = nil
	for _, g := range e.driver.gpus {
		g.listen = false
	}
}

// wait takes the events that come within limit, and reports whether a read is due.
func (e *events) wait(limit time.Duration, stop <-chan struct{}) bool {
	if e.set == nil {
		pause(limit, stop)
		return false
	}
	for n := range eventBatch {
		timeout := uint32(0)
		if n == 0 {
			timeout = uint32(max(limit.Milliseconds(), 1))
		}
		e.driver.begin("nvmlEventSetWait_v2")
		event, ret := e.set.Wait(timeout)
		e.driver.end(ret)
		switch ret {
		case nvml.SUCCESS:
			e.record(&event)
		case nvml.ERROR_TIMEOUT:
			return n > 0
		case nvml.ERROR_UNINITIALIZED:
			return true // the read initializes the driver again
		default:
			// A lost GPU spoils the whole set, and the events of the others are lost until the
			// next read makes a new set without it: that read follows at once.
			e.stop()
			if ret != nvml.ERROR_GPU_IS_LOST {
				pause(limit, stop)
			}
			return true
		}
	}
	return true
}

// record remembers an XID.
func (e *events) record(event *nvml.EventData) {
	if event.EventType != nvml.EventTypeXidCriticalError {
		return
	}
	for _, g := range e.driver.gpus {
		if g.Device != event.Device {
			continue
		}
		x := XID{Code: int(event.EventData), At: time.Now()}
		if event.GpuInstanceId != noInstance {
			x.Instance = Some(int(event.GpuInstanceId))
		}
		if g.xids = append(g.xids, x); len(g.xids) > maxXIDs {
			g.xids = g.xids[1:]
		}
	}
}
