package cgo

// Op is the direction of a transfer, by the library's numbers.
type Op int

// Directions, as the agent that starts the transfer sees them.
const (
	Read  Op = 0 // from the peer's memory into ours
	Write Op = 1 // from our memory into the peer's
)

// Region is a piece of host memory. Its layout is that of wp_region in shim.h.
type Region struct {
	Addr uint64
	Len  uint64
}
