package nixl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/cgo"
)

// ErrRange is returned for a piece that does not lie within both memories.
var ErrRange = errors.New("nixl: out of range")

// Piece is one contiguous part of a transfer. Offsets count from the beginning of the local and of the remote memory.
type Piece struct {
	Local, Remote, Len uint64
}

// Coalesce merges pieces that lie next to each other in both memories, and sorts them by their local offset. It works in
// place and returns what is left. Each descriptor costs about 2 µs, which is as much as 16 KiB.
func Coalesce(pieces []Piece) []Piece {
	byLocal := func(a, b Piece) int { return cmp.Compare(a.Local, b.Local) }
	if !slices.IsSortedFunc(pieces, byLocal) {
		slices.SortFunc(pieces, byLocal)
	}
	merged := pieces[:0]
	for _, p := range pieces {
		if p.Len == 0 {
			continue
		}
		if n := len(merged); n > 0 && merged[n-1].Local+merged[n-1].Len == p.Local && merged[n-1].Remote+merged[n-1].Len == p.Remote {
			merged[n-1].Len += p.Len
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

// checkPieces refuses what lies outside of either memory, and local pieces of a read that overlap: which bytes would win is not said.
func checkPieces(op Op, sorted []Piece, local, remote uint64) error {
	end := uint64(0)
	for _, p := range sorted {
		if p.Len > local || p.Local > local-p.Len {
			return fmt.Errorf("%w: bytes %d to %d of local memory of %d", ErrRange, p.Local, p.Local+p.Len, local)
		}
		if p.Len > remote || p.Remote > remote-p.Len {
			return fmt.Errorf("%w: bytes %d to %d of remote memory of %d", ErrRange, p.Remote, p.Remote+p.Len, remote)
		}
		if op == Read && p.Local < end {
			return fmt.Errorf("%w: two pieces are read into byte %d", ErrRange, p.Local)
		}
		end = p.Local + p.Len
	}
	return nil
}

// chunk is what one request of the library moves.
type chunk struct {
	local, remote []cgo.Region
	bytes         uint64
}

// split cuts pieces into chunks of at most maxPieces descriptors and maxBytes bytes: the library is slow with more, and a request over CMA
// keeps the agent's thread for as long as the copy takes.
func split(pieces []Piece, local, remote cgo.Region, maxPieces int, maxBytes uint64) []chunk {
	var chunks []chunk
	var c chunk
	add := func(p Piece) {
		c.local = append(c.local, cgo.Region{Addr: local.Addr + p.Local, Len: p.Len, Dev: local.Dev})
		c.remote = append(c.remote, cgo.Region{Addr: remote.Addr + p.Remote, Len: p.Len, Dev: remote.Dev})
		c.bytes += p.Len
		if len(c.local) == maxPieces || c.bytes == maxBytes {
			chunks = append(chunks, c)
			c = chunk{}
		}
	}
	for _, p := range pieces {
		for p.Len > 0 {
			n := min(p.Len, maxBytes-c.bytes)
			add(Piece{p.Local, p.Remote, n})
			p = Piece{p.Local + n, p.Remote + n, p.Len - n}
		}
	}
	if len(c.local) > 0 {
		chunks = append(chunks, c)
	}
	return chunks
}
