//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	defaultLibrary = "libnvidia-ml.so.1"
	// slowEvery is the period of facts that hardly ever change: names, remote ends of links. With 8
	// GPUs they take 514 of 789 calls.
	slowEvery = time.Minute
)

// driverOwner is held by the one goroutine of this process that calls the driver: go-nvml keeps
// the loaded library in package variables, and a thread that returns from a hung call may still
// use them.
var driverOwner = make(chan struct{}, 1)

// required are the functions called without a look-up, by this package or by go-nvml itself.
// Every driver of the last ten years has them.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
}

// driver is the source that reads NVML.
type driver struct {
	path  string
	api   nvml.Interface
	call  *atomic.Pointer[call]
	known map[string]bool // symbols looked up so far, and whether the library has them

	ready  bool
	since  time.Time   // when it became ready
	broken nvml.Return // refusal of the whole driver during this read; SUCCESS for none
	slowAt time.Time   // when the slow facts are due

	events events
	gpus   []*device
}

// openDriver waits until no other goroutine owns the driver; it returns nil if stop is closed
// before.
func openDriver(cfg Config, busy *atomic.Pointer[call], stop <-chan struct{}) source {
	select {
	case driverOwner <- struct{}{}:
	case <-stop:
		return nil
	}
	path := cfg.Library
	if path == "" {
		path = defaultLibrary
	}
	d := &driver{path: path, api: nvml.New(nvml.WithLibraryPath(path)), call: busy, known: map[string]bool{}}
	d.events.driver = d
	return d
}

// read tries twice: the first read after a reload only finds the driver uninitialized.
func (d *driver) read() *Snapshot {
	start := time.Now()
	s := d.readOnce(start)
	if s.State == StateBroken && d.broken == nvml.ERROR_UNINITIALIZED {
		s = d.readOnce(start)
	}
	s.At = time.Now()
	s.Took = s.At.Sub(start)
	return s
}

// readOnce reads all facts, or returns the reason why none can be read. A refusal of the whole
// driver by any call discards the read, since half of it would be from before.
func (d *driver) readOnce(now time.Time) *Snapshot {
	d.broken = nvml.SUCCESS
	if s := d.start(now); s != nil {
		return s
	}
	s := &Snapshot{State: StateReady, Since: d.since, Driver: d.readDriver()}
	count, ret := d.api.DeviceGetCount()
	d.end(ret)
	if ret == nvml.SUCCESS {
		s.GPUs = d.readGPUs(count, now)
		s.Driver.Events = d.events.set != nil
	} else if d.broken == nvml.SUCCESS {
		d.broken = ret
	}
	if d.broken != nvml.SUCCESS {
		state := refusal("cannot read GPUs", d.broken)
		d.stop()
		return state
	}
	return s
}

// readDriver reads the driver's versions.
func (d *driver) readDriver() Driver {
	v := Driver{Version: ask(d, "nvmlSystemGetDriverVersion", d.api.SystemGetDriverVersion)}
	if cuda := ask(d, "nvmlSystemGetCudaDriverVersion", d.api.SystemGetCudaDriverVersion); cuda.OK {
		// 12080 is CUDA 12.8.
		v.CUDA = Some(fmt.Sprintf("%d.%d", cuda.Value/1000, cuda.Value%1000/10))
	}
	return v
}

// start initializes NVML once, and returns the reason where that fails.
func (d *driver) start(now time.Time) *Snapshot {
	if d.ready {
		return nil
	}
	if err := loadPermanently(d.path); err != nil {
		return &Snapshot{State: StateNoDriver, Detail: err.Error()}
	}
	d.begin("nvmlInit_v2")
	ret := d.api.Init()
	d.end(ret)
	if ret != nvml.SUCCESS {
		return refusal("cannot initialize", ret)
	}
	d.ready, d.since, d.broken, d.slowAt, d.gpus = true, now, nvml.SUCCESS, time.Time{}, nil
	return nil
}

// stop shuts NVML down; the next read initializes it again.
func (d *driver) stop() {
	if !d.ready {
		return
	}
	d.events.stop()
	d.ready = false
	// A failure changes nothing: after a reload there is nothing left to shut down.
	d.begin("nvmlShutdown")
	_ = d.api.Shutdown()
	d.call.Store(nil)
}

func (d *driver) wait(limit time.Duration, stop <-chan struct{}) bool {
	return d.events.wait(limit, stop)
}

// close also releases the driver to the next owner.
func (d *driver) close() {
	d.stop()
	<-driverOwner
}

// refusal is the state for a refusal of the whole driver.
func refusal(failed string, ret nvml.Return) *Snapshot {
	s := &Snapshot{State: StateBroken, Detail: failed + ": " + toError(ret).Error()}
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_NO_PERMISSION:
		s.State = StateNoDriver
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		// The loader keeps the old library for the life of the process.
		s.Detail += "; the driver was replaced: restart this process"
	}
	return s
}

// loadPermanently checks that the library at path is NVML, and loads it until the process ends.
// go-nvml needs both: it calls required functions without a look-up, and its Shutdown unloads a
// library whose symbols the loader has bound.
func loadPermanently(path string) error {
	library := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := library.Open(); err != nil {
		return err
	}
	for _, name := range required {
		if err := library.Lookup(name); err != nil {
			return errors.Join(err, library.Close())
		}
	}
	return errors.Join(dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL|dl.RTLD_NODELETE).Open(), library.Close())
}

// has reports whether the loaded library has a function. A call of a function that it lacks
// ends the process.
func (d *driver) has(symbol string) bool {
	has, asked := d.known[symbol]
	if !asked {
		has = d.api.Extensions().LookupSymbol(symbol) == nil
		d.known[symbol] = has
	}
	return has
}

// begin publishes the call in progress for Monitor.Busy.
func (d *driver) begin(symbol string) { d.call.Store(&call{symbol, time.Now()}) }

// end records answers that concern the whole driver.
func (d *driver) end(ret nvml.Return) {
	d.call.Store(nil)
	switch ret {
	case nvml.ERROR_UNINITIALIZED, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		d.broken = ret
	}
}

// ask makes a call if the library has it.
func ask[T any](d *driver, symbol string, f func() (T, nvml.Return)) Opt[T] {
	if !d.has(symbol) {
		return Opt[T]{}
	}
	d.begin(symbol)
	v, ret := f()
	d.end(ret)
	if ret != nvml.SUCCESS {
		return Opt[T]{}
	}
	return Some(v)
}

// toError keeps NVML's code and text.
func toError(ret nvml.Return) *Error {
	return &Error{Code: int(ret), Text: ret.Error()}
}
