package disagg

import (
	"crypto/rand"
	"encoding/binary"
	"math/bits"
	"sync/atomic"
)

// roomBits is what SGLang keeps of a room: a signed 64-bit number that is not negative.
const roomBits = 63

// Rooms makes the numbers by which the two legs of a request find each other. A room that came again while a transfer of its
// first use is still known to an engine would mix two requests' KV (SGLang 0.5.23 keeps a room's state until the request has
// ended on both sides), so no room comes twice: they are a counter, sent through a permutation that was drawn by lot. Rooms
// of two routers meet with the chance of any two random numbers of 63 bits.
type Rooms struct {
	count     atomic.Uint64
	add, mult uint64 // of the permutation; mult is odd
}

// NewRooms returns rooms that begin at a random place.
func NewRooms() *Rooms {
	var seed [24]byte
	_, _ = rand.Read(seed[:]) // never fails
	r := &Rooms{add: binary.LittleEndian.Uint64(seed[8:]), mult: binary.LittleEndian.Uint64(seed[16:]) | 1}
	r.count.Store(binary.LittleEndian.Uint64(seed[:]))
	return r
}

// Append appends n rooms for rank of a prefill server with ranks ranks, which takes a request on rank room % ranks.
func (r *Rooms) Append(dst []uint64, n, rank, ranks int) []uint64 {
	last := r.count.Add(uint64(n))
	per := uint64(max(ranks, 1))
	// Rooms of one rank are a whole number of times per apart: the permutation is of as many bits as leave room for that.
	width := roomBits - bits.Len64(per-1)
	for i := range uint64(n) {
		dst = append(dst, r.permute(last-i, width)*per+uint64(rank)%per)
	}
	return dst
}

// permute maps the numbers below 2^width to each other, one to one: adding, multiplying by an odd number and folding the upper
// half into the lower one can all be undone.
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
