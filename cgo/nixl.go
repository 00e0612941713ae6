//go:build cgo && linux

package cgo

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// NIXL is a loaded libnixl_capi.so.
type NIXL struct {
	lib *C.wp_nixl
}

// Agent is an agent of the library, with one backend at most. Every call with it must come from the OS thread that created it.
type Agent struct {
	c *C.wp_agent // in C memory: the library fills it in
}

// Request is a transfer that the library knows.
type Request struct {
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

// status turns the library's answer into an error.
func status(s C.int) error {
	if s == 0 {
		return nil
	}
	return StatusError(s)
}

// CreateAgent creates an agent without a backend. With telemetry each finished request can be asked for its times.
func (n *NIXL) CreateAgent(name string, telemetry bool) (Agent, error) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	a := Agent{c: (*C.wp_agent)(C.calloc(1, C.sizeof_wp_agent))}
	var wanted C.int
	if telemetry {
		wanted = 1
	}
	if s := C.wp_agent_create(n.lib, c, wanted, a.c); s != 0 {
		C.free(unsafe.Pointer(a.c))
		return Agent{}, StatusError(s)
	}
	return a, nil
}

// DestroyAgent ends an agent; its handle must not be used again. No transfer of it moves a byte afterwards.
func (n *NIXL) DestroyAgent(a Agent) error {
	defer C.free(unsafe.Pointer(a.c))
	return status(C.wp_agent_destroy(n.lib, a.c))
}

// CreateBackend gives the agent its backend, such as "UCX". params holds keys and values in turn.
func (n *NIXL) CreateBackend(a Agent, plugin string, params []string) error {
	name := C.CString(plugin)
	defer C.free(unsafe.Pointer(name))
	text := C.CString(strings.Join(params, "\x00") + "\x00")
	defer C.free(unsafe.Pointer(text))
	return status(C.wp_backend_create(n.lib, a.c, name, text, C.size_t(len(params)/2)))
}

// Plugins returns the names of the transfer plugins that the agent finds beside its library, or in NIXL_PLUGIN_DIR.
func (n *NIXL) Plugins(a Agent) ([]string, error) {
	var names *C.char
	var size C.size_t
	s := C.wp_nixl_plugins(n.lib, a.c, &names, &size)
	defer C.free(unsafe.Pointer(names))
	if s != 0 {
		return nil, StatusError(s)
	}
	if size == 0 {
		return nil, nil
	}
	// The last name's zero byte is left out, so that Split does not see an empty name after it.
	return strings.Split(C.GoStringN(names, C.int(size)-1), "\x00"), nil
}

// regions passes a slice of regions to C: both sides lay a region out as three 64-bit words, and C keeps no pointer to it.
func regions(list []Region) (*C.wp_region, C.size_t) {
	return (*C.wp_region)(unsafe.Pointer(unsafe.SliceData(list))), C.size_t(len(list))
}

// Register makes memory known to the agent's backend.
func (n *NIXL) Register(a Agent, kind Kind, list []Region) error {
	p, count := regions(list)
	return status(C.wp_register(n.lib, a.c, C.int(kind), p, count))
}

// Deregister takes back what Register did with the same regions.
func (n *NIXL) Deregister(a Agent, kind Kind, list []Region) error {
	p, count := regions(list)
	return status(C.wp_deregister(n.lib, a.c, C.int(kind), p, count))
}

// LocalMetadata returns what a peer must load to reach the agent and its registered memory.
func (n *NIXL) LocalMetadata(a Agent) ([]byte, error) {
	var data unsafe.Pointer
	var size C.size_t
	if s := C.wp_local_metadata(n.lib, a.c, &data, &size); s != 0 {
		return nil, StatusError(s)
	}
	defer C.free(data)
	return C.GoBytes(data, C.int(size)), nil
}

// LoadRemote makes a peer known by its metadata and returns its name.
func (n *NIXL) LoadRemote(a Agent, metadata []byte) (string, error) {
	if len(metadata) == 0 {
		return "", ErrInvalidParam
	}
	var name *C.char
	if s := C.wp_load_remote(n.lib, a.c, unsafe.Pointer(&metadata[0]), C.size_t(len(metadata)), &name); s != 0 {
		return "", StatusError(s)
	}
	defer C.free(unsafe.Pointer(name))
	return C.GoString(name), nil
}

// InvalidateRemote forgets a peer and closes the connection to it.
func (n *NIXL) InvalidateRemote(a Agent, peer string) error {
	name := C.CString(peer)
	defer C.free(unsafe.Pointer(name))
	return status(C.wp_invalidate_remote(n.lib, a.c, name))
}

// Connect connects to a peer ahead of its first transfer.
func (n *NIXL) Connect(a Agent, peer string) error {
	name := C.CString(peer)
	defer C.free(unsafe.Pointer(name))
	return status(C.wp_connect(n.lib, a.c, name))
}

// CreateRequest prepares a transfer: local[i] from or to remote[i], which has the same length. One call, whatever their number.
func (n *NIXL) CreateRequest(a Agent, job *Job, local, remote []Region) (Request, error) {
	if len(local) == 0 || len(local) != len(remote) {
		return Request{}, ErrInvalidParam
	}
	peer := C.CString(job.Peer)
	defer C.free(unsafe.Pointer(peer))
	c := C.wp_job{op: C.int(job.Op), local_kind: C.int(job.LocalKind), remote_kind: C.int(job.RemoteKind), peer: peer, count: C.size_t(len(local))}
	if job.Note != nil {
		c.note, c.note_len = C.CBytes(job.Note), C.size_t(len(job.Note))
		defer C.free(c.note)
	}
	mine, _ := regions(local)
	theirs, _ := regions(remote)
	var r Request
	return r, status(C.wp_request_create(n.lib, a.c, &c, mine, theirs, &r.handle))
}

// Post starts a request. It is done when the error is nil, under way when it is ErrInProgress. Over CMA the call lasts as long as the copy.
func (n *NIXL) Post(a Agent, r Request) error { return status(C.wp_request_post(n.lib, a.c, r.handle)) }

// Status looks at a posted request: nil is done, ErrInProgress under way.
func (n *NIXL) Status(a Agent, r Request) error {
	return status(C.wp_request_status(n.lib, a.c, r.handle))
}

// Wait blocks until one of the requests has ended, the time is over or wake is not 0, and fills statuses, which has the length of requests.
// It returns the number of requests that are no longer in progress.
func (n *NIXL) Wait(a Agent, requests []Request, statuses []int32, timeout time.Duration, wake *atomic.Uint32) int {
	if len(requests) == 0 || len(requests) != len(statuses) {
		return 0
	}
	// A Request is one C pointer, so a slice of them is C's array of pointers; an atomic.Uint32 is its one word.
	handles := (*unsafe.Pointer)(unsafe.Pointer(&requests[0]))
	return int(C.wp_wait(n.lib, a.c, handles, (*C.int)(unsafe.Pointer(&statuses[0])), C.size_t(len(requests)), C.uint64_t(max(timeout, 0)),
		(*C.uint32_t)(unsafe.Pointer(wake))))
}

// Release gives a request back. One that is under way is not stopped by it: the library forgets it, and its bytes still move.
func (n *NIXL) Release(a Agent, r Request) error {
	return status(C.wp_request_release(n.lib, a.c, r.handle))
}

// Telemetry returns the times of a finished request of an agent that was created with telemetry.
func (n *NIXL) Telemetry(a Agent, r Request) (Telemetry, error) {
	var t C.wp_telemetry
	if s := C.wp_request_telemetry(n.lib, a.c, r.handle, &t); s != 0 {
		return Telemetry{}, StatusError(s)
	}
	return Telemetry{
		Post:        time.Duration(t.post_us) * time.Microsecond,
		Transfer:    time.Duration(t.transfer_us) * time.Microsecond,
		Bytes:       uint64(t.bytes),
		Descriptors: uint64(t.descriptors),
	}, nil
}

// Notify sends a message to a peer.
func (n *NIXL) Notify(a Agent, peer string, message []byte) error {
	name := C.CString(peer)
	defer C.free(unsafe.Pointer(name))
	data := C.CBytes(message)
	defer C.free(data)
	return status(C.wp_notify(n.lib, a.c, name, data, C.size_t(len(message))))
}

// Notes takes the messages that have come since the last call, with their senders' names.
func (n *NIXL) Notes(a Agent) ([]Note, error) {
	var data *C.char
	var size C.size_t
	s := C.wp_notes(n.lib, a.c, &data, &size)
	defer C.free(unsafe.Pointer(data))
	if s != 0 {
		return nil, StatusError(s)
	}
	var notes []Note
	for rest := C.GoBytes(unsafe.Pointer(data), C.int(size)); len(rest) > 0; {
		var peer, message []byte
		peer, rest = cut(rest)
		message, rest = cut(rest)
		notes = append(notes, Note{Peer: string(peer), Data: message})
	}
	return notes, nil
}

// cut takes bytes off that the shim has put behind their length.
func cut(packed []byte) (head, rest []byte) {
	size := binary.NativeEndian.Uint32(packed)
	return packed[4 : 4+size], packed[4+size:]
}
