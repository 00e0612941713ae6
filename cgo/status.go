package cgo

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable is returned by Open in a binary that was built without cgo, or not for Linux.
	ErrUnavailable = errors.New("cgo: this binary was built without NIXL support")
	// ErrOpen wraps what the dynamic loader said about a library that it cannot open.
	ErrOpen = errors.New("cgo: library does not load")
	// ErrSymbol wraps the name of a function that a loaded library lacks: it is not NIXL's C API, or too old.
	ErrSymbol = errors.New("cgo: library lacks a function")
)

// Status is what a call into the library answered when that was not success. The values are nixl_capi_status_t of
// nixl-sys 1.5.1.
type Status int

// The statuses of nixl_capi_status_t. The library folds nearly every failure into StatusBackend.
const (
	StatusInProgress   Status = 1
	StatusInvalidParam Status = -1
	StatusBackend      Status = -2
	StatusInvalidState Status = -3
	StatusException    Status = -4
	StatusNoTelemetry  Status = -5
	StatusNotFound     Status = -6
)

// Error names the status.
func (s Status) Error() string {
	switch s {
	case StatusInProgress:
		return "nixl: in progress"
	case StatusInvalidParam:
		return "nixl: invalid parameter"
	case StatusBackend:
		return "nixl: backend or peer failed"
	case StatusInvalidState:
		return "nixl: invalid state"
	case StatusException:
		return "nixl: exception"
	case StatusNoTelemetry:
		return "nixl: no telemetry"
	case StatusNotFound:
		return "nixl: not found"
	default:
		return fmt.Sprintf("nixl: status %d", int(s))
	}
}
