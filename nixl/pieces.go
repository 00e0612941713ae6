package nixl

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrRange is returned for a piece outside one of the memories.
var ErrRange = errors.New("nixl: out of range")

// Piece is one contiguous part of a transfer, by its offsets in the local and the remote
// memory.
type Piece struct {
	Local, Remote, Len uint64
}

// coalesce sorts pieces by local offset and merges those adjacent in both memories. It works in
// place and returns the remaining pieces. A descriptor costs about 2 µs, as much as copying 16
// KiB.
func coalesce(pieces []Piece) []Piece {
	slices.SortFunc(pieces, func(a, b Piece) int { return cmp.Compare(a.Local, b.Local) })
	merged := pieces[:0]
	for _, p := range pieces {
		if p.Len == 0 {
			continue
		}
		if n := len(merged); n > 0 {
			last := &merged[n-1]
			if last.Local+last.Len == p.Local && last.Remote+last.Len == p.Remote {
				last.Len += p.Len
				continue
			}
		}
		merged = append(merged, p)
	}
	return merged
}

// checkPieces refuses pieces outside either memory, and reads whose local pieces overlap, since
// their result would be undefined.
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

// chunk is the content of one library request.
type chunk struct {
	local, remote []Region
	bytes         uint64
}

// split cuts pieces into chunks of at most maxPieces descriptors and maxBytes bytes: the
// library is slow with more descriptors, and a request over CMA occupies the agent's thread
// while it copies. local and remote are the addresses of the two memories.
func split(pieces []Piece, local, remote uint64, maxPieces int, maxBytes uint64) []chunk {
	var chunks []chunk
	var c chunk
	add := func(p Piece) {
		c.local = append(c.local, Region{Addr: local + p.Local, Len: p.Len})
		c.remote = append(c.remote, Region{Addr: remote + p.Remote, Len: p.Len})
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
