package cgo

import "time"

// Kind is where memory is, by the library's numbers.
type Kind int

// The kinds in use.
const (
	Host   Kind = 0 // DRAM
	Device Kind = 1 // VRAM of the GPU that Region.Dev names
)

// Op is what a transfer does, by the library's numbers.
type Op int

// The operations, as the agent that asks sees them.
const (
	Read  Op = 0 // from the peer's memory into ours
	Write Op = 1 // from our memory into the peer's
)

// Region is a piece of memory. Its layout is that of wp_region in shim.h.
type Region struct {
	Addr uint64
	Len  uint64
	Dev  uint64 // 0 for host memory
}

// Job is what a request is to do.
type Job struct {
	Op                    Op
	LocalKind, RemoteKind Kind
	Peer                  string
	Note                  []byte // sent to the peer when all has moved; nil is none
}

// Telemetry is what the library measured of one request.
type Telemetry struct {
	Post, Transfer time.Duration
	Bytes          uint64
	Descriptors    uint64
}

// Note is a message from a peer.
type Note struct {
	Peer string
	Data []byte
}
