//go:build cgo && linux

package cgo

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// NIXL is a loaded libnixl_capi.so.
type NIXL struct {
	lib *C.wp_nixl
}

// Agent is an agent of the library. Every call with it must come from the OS thread that created it.
type Agent struct {
	handle unsafe.Pointer
}

// Open loads the library at path: a file, or a bare name for the loader to search. Failures wrap ErrOpen or ErrSymbol
// and carry the loader's own words.
func Open(path string) (*NIXL, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why C.int
	var text *C.char
	lib := C.wp_nixl_open(name, &why, &text)
	if lib != nil {
		return &NIXL{lib: lib}, nil
	}
	defer C.free(unsafe.Pointer(text))
	reason := ErrOpen
	if why == C.WP_NIXL_SYMBOL {
		reason = ErrSymbol
	}
	return nil, fmt.Errorf("%w: %s", reason, C.GoString(text))
}

// CreateAgent creates an agent without a backend.
func (n *NIXL) CreateAgent(name string) (Agent, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	var handle unsafe.Pointer
	if s := C.wp_nixl_agent_create(n.lib, c, &handle); s != 0 {
		return Agent{}, StatusError(s)
	}
	return Agent{handle: handle}, nil
}

// DestroyAgent ends an agent; its handle must not be used again.
func (n *NIXL) DestroyAgent(a Agent) error {
	if s := C.wp_nixl_agent_destroy(n.lib, a.handle); s != 0 {
		return StatusError(s)
	}
	return nil
}

// Plugins returns the names of the transfer plugins that the agent finds beside its library, or in NIXL_PLUGIN_DIR.
func (n *NIXL) Plugins(a Agent) ([]string, error) {
	var names *C.char
	var size C.size_t
	status := C.wp_nixl_plugins(n.lib, a.handle, &names, &size)
	defer C.free(unsafe.Pointer(names))
	if status != 0 {
		return nil, StatusError(status)
	}
	if size == 0 {
		return nil, nil
	}
	// The last name's zero byte is left out, so that Split does not see an empty name after it.
	return strings.Split(C.GoStringN(names, C.int(size)-1), "\x00"), nil
}
