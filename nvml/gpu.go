package nvml

import (
	"errors"
	"fmt"
)

var (
	// ErrNoDriver says that there is no usable NVIDIA driver: no library, no kernel module, or a build without cgo.
	ErrNoDriver = errors.New("nvml: no NVIDIA driver")
	// ErrClosed is returned by a Reader after Close.
	ErrClosed = errors.New("nvml: reader is closed")
)

// Error is what NVML answered when that was not success.
type Error struct {
	Code int    // nvmlReturn_t
	Text string // nvmlErrorString of the code
}

// Error gives NVML's words and code.
func (e *Error) Error() string { return fmt.Sprintf("nvml: %s (%d)", e.Text, e.Code) }

// Field is a value that the driver may not be able to tell. The zero value is not known.
type Field[T any] struct {
	Value T
	OK    bool
}

// GPU is what the driver tells of one GPU. Memory is in bytes.
type GPU struct {
	Index          int // as in NVIDIA_VISIBLE_DEVICES and nvidia-smi; may change when the machine restarts
	UUID           Field[string]
	Name           Field[string]
	MemoryTotal    Field[uint64]
	MemoryUsed     Field[uint64] // by processes; where MemoryReserved is not known, it is counted here
	MemoryReserved Field[uint64] // by driver and firmware; not known to drivers before 510
	Utilization    Field[int]    // percent of the last sample period in which a kernel ran
	NVLinks        Field[int]    // links that the GPU has; not known where it has none
	NVLinksActive  Field[int]    // links that are up
	Err            error         // why the GPU does not answer at all; all fields are then unknown
}

// Driver is what the driver tells of itself.
type Driver struct {
	Version Field[string] // for instance 570.86.15
	CUDA    Field[string] // newest CUDA that the driver supports, for instance 12.8
}

// Config says where the driver is.
type Config struct {
	// Library is the path or name of NVML's library; empty means libnvidia-ml.so.1, where the loader finds it.
	Library string
}
