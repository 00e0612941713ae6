package cgo

import (
	"errors"
	"fmt"
)

var (
	// ErrUnavailable is returned by Open in a binary built without cgo, or not for Linux.
	ErrUnavailable = errors.New("cgo: this binary was built without NIXL support")
	// ErrOpen wraps the dynamic loader's message about a library that it cannot open.
	ErrOpen = errors.New("cgo: library does not load")
	// ErrSymbol wraps the name of a function that a loaded library lacks: the library is not
	// NIXL's C API, or too old.
	ErrSymbol = errors.New("cgo: library lacks a function")
)

// StatusError is a nixl_capi_status_t of nixl-sys 1.5.1 other than success.
type StatusError int

// The library reports nearly every failure as ErrBackend.
const (
	ErrInProgress   StatusError = 1 // no failure: ask again
	ErrInvalidParam StatusError = -1
	ErrBackend      StatusError = -2
	ErrInvalidState StatusError = -3
	ErrException    StatusError = -4
	ErrNoTelemetry  StatusError = -5
	ErrNotFound     StatusError = -6
)

var statusTexts = map[StatusError]string{
	ErrInProgress: "in progress", ErrInvalidParam: "invalid parameter", ErrBackend: "backend or peer failed", ErrInvalidState: "invalid state",
	ErrException: "exception", ErrNoTelemetry: "no telemetry", ErrNotFound: "not found",
}

// Error names the status.
func (s StatusError) Error() string {
	if text, ok := statusTexts[s]; ok {
		return "nixl: " + text
	}
	return fmt.Sprintf("nixl: status %d", int(s))
}
