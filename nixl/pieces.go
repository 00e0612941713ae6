package nixl

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
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
	sortByLocal(pieces)
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

func byLocal(a, b Piece) int { return cmp.Compare(a.Local, b.Local) }

const (
	// sortDigit is the number of bits per radix pass: 2,049 counters of 8 bytes fit the L1
	// cache.
	sortDigit = 11
	// radixMin is the least number of pieces that repays the radix sort's second copy of the
	// list.
	radixMin = 256
)

// sortByLocal sorts by local offset. Offsets of pages differ in at most 33 bits, which a radix
// sort orders in three passes: 16,384 pages take 0.2 ms instead of 2 ms by comparisons, beside
// 9 ms for copying their 64 MiB.
func sortByLocal(pieces []Piece) {
	if slices.IsSortedFunc(pieces, byLocal) {
		return
	}
	var differ uint64
	for _, p := range pieces {
		differ |= p.Local ^ pieces[0].Local
	}
	low, high := bits.TrailingZeros64(differ), bits.Len64(differ)
	if len(pieces) < radixMin || high-low > 3*sortDigit {
		slices.SortFunc(pieces, byLocal)
		return
	}
	from, to := pieces, make([]Piece, len(pieces))
	for ; low < high; low += sortDigit {
		var starts [1<<sortDigit + 1]int
		for _, p := range from {
			starts[p.Local>>low&(1<<sortDigit-1)+1]++
		}
		for i := 1; i < len(starts); i++ {
			starts[i] += starts[i-1]
		}
		for _, p := range from {
			digit := p.Local >> low & (1<<sortDigit - 1)
			to[starts[digit]] = p
			starts[digit]++
		}
		from, to = to, from
	}
	copy(pieces, from) // from may be pieces itself
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
