package disagg

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// roomBits is the size of a room at SGLang: a signed 64-bit number that is not negative.
const roomBits = 63

// Rooms makes the numbers by which the two legs of a request find each other. No room comes twice:
// while an engine still has the state of a room (SGLang 0.5.23 keeps it until the request has ended
// on both sides), a second use would mix the KV of two requests. Rooms are a counter behind a
// random permutation, so that rooms of two routers collide as rarely as random numbers of 63 bits.
type Rooms struct {
	count     atomic.Uint64
	add, mult uint64 // of the permutation; mult is odd
}

// NewRooms returns rooms with a random start.
func NewRooms() *Rooms {
	var seed [24]byte
	_, _ = rand.Read(seed[:]) // never fails
	r := &Rooms{add: binary.LittleEndian.Uint64(seed[8:]), mult: binary.LittleEndian.Uint64(seed[16:]) | 1}
	r.count.Store(binary.LittleEndian.Uint64(seed[:]))
	return r
}

// Append appends n rooms for one rank of a prefill server, which runs a request on rank room %
// ranks.
func (r *Rooms) Append(dst []uint64, n, rank, ranks int) []uint64 {
	last := r.count.Add(uint64(n))
	per := uint64(max(ranks, 1))
	// Rooms of one rank are a multiple of per apart: the permutation has as many bits fewer.
	width := roomBits - bits.Len64(per-1)
	for i := range uint64(n) {
		dst = append(dst, r.permute(last-i, width)*per+uint64(rank)%per)
	}
	return dst
}

// permute maps the numbers below 2^width one to one: adding, multiplying by an odd number and
// folding the upper half into the lower one can all be undone.
func (r *Rooms) permute(x uint64, width int) uint64 {
	mask, half := uint64(1)<<width-1, (width+1)/2
	x = (x + r.add) & mask
	for range 3 {
		x ^= x >> half
		x = x * r.mult & mask
		x ^= x >> half
		x = x * 0x9e3779b97f4a7c15 & mask
	}
	return x ^ x>>half
}
