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
	// slowEvery is how often facts are read that hardly ever change: names, ends of links, topology. With 8 GPUs they are
	// 840 of 1,120 calls.
	slowEvery = time.Minute
)

// owner is held by the one goroutine of this process that calls the driver: go-nvml keeps what it loaded in variables
// of its own, and a thread that comes back from a call that hung may still use them.
var owner = make(chan struct{}, 1)

// required are the functions that are called without a look first, by this package or by go-nvml on its own. Every
// driver of the last ten years has them.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
}

// driver is the source that reads NVML.
type driver struct {
	path  string
	api   nvml.Interface
	call  *atomic.Pointer[call]
	known map[string]bool // which functions the library has, as far as asked

	ready  bool
	since  time.Time   // when it became ready
	broken nvml.Return // what a call said that spoils all others; SUCCESS when none did
	slowAt time.Time   // when the slow facts are due

	set    nvml.EventSet // nil while XIDs are not listened for
	gpus   []*device
	sample int // the GPU whose PCIe throughput is sampled next
}

// openDriver waits until no other owner is left; it returns nil if stop is closed before.
func openDriver(cfg Config, busy *atomic.Pointer[call], stop <-chan struct{}) source {
	select {
	case owner <- struct{}{}:
	case <-stop:
		return nil
	}
	path := cfg.Library
	if path == "" {
		path = defaultLibrary
	}
	return &driver{path: path, api: nvml.New(nvml.WithLibraryPath(path)), call: busy, known: map[string]bool{}}
}

// read tries twice: the first read after a driver was reloaded finds only that it must be initialized again.
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

// readOnce reads everything that there is to read, or says why nothing is. A refusal of the whole driver that any call
// meets spoils the read: half of it would be from before.
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
		s.Driver.Events = d.set != nil
	} else if d.broken == nvml.SUCCESS {
		d.broken = ret
	}
	if d.broken != nvml.SUCCESS {
		state := d.refusal("cannot read GPUs", d.broken)
		d.stop()
		return state
	}
	return s
}

// readDriver reads the driver's versions.
func (d *driver) readDriver() Driver {
	v := Driver{Version: ask(d, "nvmlSystemGetDriverVersion", d.api.SystemGetDriverVersion)}
	if cuda := ask(d, "nvmlSystemGetCudaDriverVersion", d.api.SystemGetCudaDriverVersion); cuda.OK {
		// 12080 stands for 12.8.
		v.CUDA = Some(fmt.Sprintf("%d.%d", cuda.Value/1000, cuda.Value%1000/10))
	}
	return v
}

// start initializes NVML where that has not happened, and returns why that is not possible.
func (d *driver) start(now time.Time) *Snapshot {
	if d.ready {
		return nil
	}
	if err := pin(d.path); err != nil {
		return &Snapshot{State: StateNoDriver, Detail: err.Error()}
	}
	d.begin("nvmlInit_v2")
	ret := d.api.Init()
	d.end(ret)
	if ret != nvml.SUCCESS {
		return d.refusal("cannot initialize", ret)
	}
	d.ready, d.since, d.broken, d.slowAt, d.gpus = true, now, nvml.SUCCESS, time.Time{}, nil
	return nil
}

// stop gives the driver up, so that the next read initializes it anew.
func (d *driver) stop() {
	if !d.ready {
		return
	}
	d.stopEvents()
	d.ready = false
	// What it answers changes nothing: after a reload there is nothing left to shut down.
	d.begin("nvmlShutdown")
	_ = d.api.Shutdown()
	d.call.Store(nil)
}

// close also lets the next owner in.
func (d *driver) close() {
	d.stop()
	<-owner
}

// refusal is the state that an answer for the whole driver stands for.
func (d *driver) refusal(what string, ret nvml.Return) *Snapshot {
	s := &Snapshot{State: StateBroken, Detail: what + ": " + toError(ret).Error()}
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_NO_PERMISSION:
		s.State = StateNoDriver
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		// The loader keeps the old library for as long as the process lives.
		s.Detail += "; the driver was replaced: restart this process"
	}
	return s
}

// pin checks that the library at path is NVML, and loads it for good. Two things in go-nvml call for this: it calls
// required functions unseen, and its Shutdown unloads a library whose symbols the loader has bound into this process.
func pin(path string) error {
	look := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := look.Open(); err != nil {
		return err
	}
	for _, name := range required {
		if err := look.Lookup(name); err != nil {
			return errors.Join(err, look.Close())
		}
	}
	return errors.Join(dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL|dl.RTLD_NODELETE).Open(), look.Close())
}

// has reports whether the loaded library has a function. It must be true before the function is called: the process
// would end otherwise.
func (d *driver) has(symbol string) bool {
	has, asked := d.known[symbol]
	if !asked {
		has = d.api.Extensions().LookupSymbol(symbol) == nil
		d.known[symbol] = has
	}
	return has
}

// begin lets everybody see which call is under way.
func (d *driver) begin(symbol string) { d.call.Store(&call{symbol, time.Now()}) }

// end notes the answers that concern more than the value that was asked for.
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

// toError keeps NVML's words.
func toError(ret nvml.Return) *Error {
	return &Error{Code: int(ret), Text: ret.Error()}
}
