//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const defaultLibrary = "libnvidia-ml.so.1"

// required are the functions that are called without a look first, by this package or by go-nvml on its own. Every
// driver of the last ten years has them.
var required = []string{
	"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
}

// Reader reads the GPUs of this machine. It loads the driver's library at first use, and tries again at each use until
// there is one.
type Reader struct {
	path string

	mu     sync.Mutex
	api    nvml.Interface // guarded by mu, as all below
	ready  bool
	closed bool
	known  map[string]bool // which functions the library has, as far as asked
}

// New returns a reader; it loads nothing yet.
func New(cfg Config) *Reader {
	path := cfg.Library
	if path == "" {
		path = defaultLibrary
	}
	return &Reader{path: path, api: nvml.New(nvml.WithLibraryPath(path)), known: map[string]bool{}}
}

// Read returns all GPUs, in the driver's order. A GPU that does not answer is in the list, with its Err.
func (r *Reader) Read() ([]GPU, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.startLocked(); err != nil {
		return nil, err
	}
	count, ret := r.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("cannot count GPUs: %w", toError(ret))
	}
	gpus := make([]GPU, count)
	for i := range gpus {
		gpus[i] = r.readLocked(i)
	}
	return gpus, nil
}

// Driver returns the driver's versions.
func (r *Reader) Driver() (Driver, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.startLocked(); err != nil {
		return Driver{}, err
	}
	var d Driver
	if r.hasLocked("nvmlSystemGetDriverVersion") {
		d.Version = field(r.api.SystemGetDriverVersion())
	}
	if r.hasLocked("nvmlSystemGetCudaDriverVersion") {
		// 12080 stands for 12.8.
		if v, ret := r.api.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			d.CUDA = Field[string]{fmt.Sprintf("%d.%d", v/1000, v%1000/10), true}
		}
	}
	return d, nil
}

// Close ends the use of the driver. It may be called more than once.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if !r.ready {
		return nil
	}
	r.ready = false
	if ret := r.api.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("cannot shut down: %w", toError(ret))
	}
	return nil
}

// startLocked initializes NVML once.
func (r *Reader) startLocked() error {
	if r.closed {
		return ErrClosed
	}
	if r.ready {
		return nil
	}
	if err := pin(r.path); err != nil {
		return fmt.Errorf("%w: %w", ErrNoDriver, err)
	}
	switch ret := r.api.Init(); ret {
	case nvml.SUCCESS:
		r.ready = true
		return nil
	case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED, nvml.ERROR_NO_PERMISSION:
		return fmt.Errorf("%w: %w", ErrNoDriver, toError(ret))
	default:
		return fmt.Errorf("cannot initialize: %w", toError(ret))
	}
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
	return dl.New(path, dl.RTLD_LAZY|dl.RTLD_GLOBAL|dl.RTLD_NODELETE).Open()
}

// hasLocked reports whether the loaded library has a function. It must be true before the function is called.
func (r *Reader) hasLocked(name string) bool {
	has, asked := r.known[name]
	if !asked {
		has = r.api.Extensions().LookupSymbol(name) == nil
		r.known[name] = has
	}
	return has
}

// toError keeps NVML's words: Return.Error asks the library for them, which only the holder of the lock may do.
func toError(ret nvml.Return) error {
	return &Error{Code: int(ret), Text: ret.Error()}
}

// field turns an answer of go-nvml into a Field.
func field[T any](value T, ret nvml.Return) Field[T] {
	if ret != nvml.SUCCESS {
		return Field[T]{}
	}
	return Field[T]{value, true}
}
