//go:build cgo && linux

package cgo

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// Library is a loaded libnixl_capi.so.
type Library struct {
	c *C.wp_nixl
}

// Agent is one NIXL agent with at most one backend. Every call must come from the OS thread
// that created the agent.
type Agent struct {
	lib *C.wp_nixl
	c   *C.wp_agent // in C memory: the library fills it in
}

// Request is a transfer that the library has prepared.
type Request struct {
	handle unsafe.Pointer
}

// Open loads the library at path: a file, or a bare name for the loader to search. Failures
// wrap ErrOpen or ErrSymbol and carry the loader's own message.
func Open(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var failure C.int
	var text *C.char
	lib := C.wp_nixl_open(name, &failure, &text)
	if lib != nil {
		return &Library{c: lib}, nil
	}
	defer C.free(unsafe.Pointer(text))
	reason := ErrOpen
	if failure == C.WP_NIXL_SYMBOL {
		reason = ErrSymbol
	}
	return nil, fmt.Errorf("%w: %s", reason, C.GoString(text))
}

// status turns the library's answer into an error.
func status(s C.int) error {
	if s == 0 {
		return nil
	}
	return StatusError(s)
}

// CreateAgent creates an agent without a backend.
func (l *Library) CreateAgent(name string) (*Agent, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	a := &Agent{lib: l.c, c: (*C.wp_agent)(C.calloc(1, C.sizeof_wp_agent))}
	if s := C.wp_agent_create(l.c, c, a.c); s != 0 {
		C.free(unsafe.Pointer(a.c))
		return nil, StatusError(s)
	}
	return a, nil
}

// Destroy ends the agent, which must not be used again. None of its transfers moves a byte
// afterwards.
func (a *Agent) Destroy() error {
	defer C.free(unsafe.Pointer(a.c))
	return status(C.wp_agent_destroy(a.lib, a.c))
}

// CreateBackend gives the agent its backend, such as "UCX".
func (a *Agent) CreateBackend(plugin string) error {
	name := C.CString(plugin)
	defer C.free(unsafe.Pointer(name))
	return status(C.wp_backend_create(a.lib, a.c, name))
}

// Plugins returns the names of the transfer plugins beside the library, or in NIXL_PLUGIN_DIR.
func (a *Agent) Plugins() ([]string, error) {
	var names *C.char
	var size C.size_t
	s := C.wp_plugins(a.lib, a.c, &names, &size)
	defer C.free(unsafe.Pointer(names))
	if s != 0 {
		return nil, StatusError(s)
	}
	if size == 0 {
		return nil, nil
	}
	// Each name ends with a zero byte; the last one is cut, so that Split adds no empty name.
	return strings.Split(C.GoStringN(names, C.int(size)-1), "\x00"), nil
}

// regions passes a slice of regions to C: both sides lay a region out as two 64-bit words, and
// C keeps no pointer to it.
func regions(list []Region) (*C.wp_region, C.size_t) {
	return (*C.wp_region)(unsafe.Pointer(unsafe.SliceData(list))), C.size_t(len(list))
}

// Register makes memory known to the agent's backend.
func (a *Agent) Register(list []Region) error {
	p, count := regions(list)
	return status(C.wp_register(a.lib, a.c, p, count))
}

// Deregister takes back a Register of the same regions.
func (a *Agent) Deregister(list []Region) error {
	p, count := regions(list)
	return status(C.wp_deregister(a.lib, a.c, p, count))
}

// Metadata returns the bytes that a peer loads to reach the agent and its registered memory.
func (a *Agent) Metadata() ([]byte, error) {
	var data unsafe.Pointer
	var size C.size_t
	if s := C.wp_local_metadata(a.lib, a.c, &data, &size); s != 0 {
		return nil, StatusError(s)
	}
	defer C.free(data)
	return C.GoBytes(data, C.int(size)), nil
}

// LoadPeer makes a peer known by its metadata and returns the peer's name.
func (a *Agent) LoadPeer(metadata []byte) (string, error) {
	if len(metadata) == 0 {
		return "", ErrInvalidParam
	}
	var name *C.char
	s := C.wp_load_peer(a.lib, a.c, unsafe.Pointer(&metadata[0]), C.size_t(len(metadata)), &name)
	if s != 0 {
		return "", StatusError(s)
	}
	defer C.free(unsafe.Pointer(name))
	return C.GoString(name), nil
}

// ForgetPeer drops a peer and closes the connection to it.
func (a *Agent) ForgetPeer(peer string) error {
	name := C.CString(peer)
	defer C.free(unsafe.Pointer(name))
	return status(C.wp_forget_peer(a.lib, a.c, name))
}

// CreateRequest prepares a transfer from or to a peer: local[i] and remote[i] belong together
// and have equal lengths. It is one call into C for any number of regions.
func (a *Agent) CreateRequest(op Op, peer string, local, remote []Region) (Request, error) {
	if len(local) == 0 || len(local) != len(remote) {
		return Request{}, ErrInvalidParam
	}
	name := C.CString(peer)
	defer C.free(unsafe.Pointer(name))
	ours, count := regions(local)
	theirs, _ := regions(remote)
	var r Request
	return r, status(C.wp_request_create(a.lib, a.c, C.int(op), name, ours, theirs, count, &r.handle))
}

// Post starts a request: nil is done, ErrInProgress under way. Over CMA the call lasts as long
// as the copy.
func (a *Agent) Post(r Request) error { return status(C.wp_request_post(a.lib, a.c, r.handle)) }

// Wait blocks until a request has ended, the timeout has passed or wake is not 0. It fills
// statuses, which has the length of requests, and returns the number of requests no longer in
// progress.
func (a *Agent) Wait(requests []Request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) int {
	if len(requests) == 0 || len(requests) != len(statuses) {
		return 0
	}
	// A Request is one C pointer, so a slice of them is C's array of pointers; an atomic.Uint32
	// is its one word.
	handles := (*unsafe.Pointer)(unsafe.Pointer(&requests[0]))
	return int(C.wp_wait(a.lib, a.c, handles, (*C.int)(unsafe.Pointer(&statuses[0])),
		C.size_t(len(requests)), C.uint64_t(max(timeout, 0)), (*C.uint32_t)(unsafe.Pointer(wake))))
}

// Release gives a request back. It does not stop a request in progress: the library forgets the
// request, and its bytes still move.
func (a *Agent) Release(r Request) error {
	return status(C.wp_request_release(a.lib, a.c, r.handle))
}
