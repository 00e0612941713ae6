package nixl

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
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
	sortByLocal(pieces)
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

func byLocal(a, b Piece) int { return cmp.Compare(a.Local, b.Local) }

const (
	// sortDigit is how many bits sortByLocal takes at a time: its counters fit the first cache.
	sortDigit = 11
	// sortFew is below what its second copy of the list is worth.
	sortFew = 256
)

// sortByLocal sorts by the local offset. Offsets of pages differ in few bits, which are sorted by digits: 16,384 pages in any order take 0.2 ms, where
// comparisons take 2 and the copy of their 64 MiB takes 9.
func sortByLocal(pieces []Piece) {
	if slices.IsSortedFunc(pieces, byLocal) {
		return
	}
	var differ uint64
	for _, p := range pieces {
		differ |= p.Local ^ pieces[0].Local
	}
	low, high := bits.TrailingZeros64(differ), bits.Len64(differ)
	if len(pieces) < sortFew || high-low > 3*sortDigit {
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
	copy(pieces, from) // which may be pieces itself
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
