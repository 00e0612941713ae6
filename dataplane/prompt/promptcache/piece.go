package promptcache

import (
	"bytes"
	"sync/atomic"
	"unsafe"

	"github.com/warmpath/warmpath/radix"
)

// piece is a part of one or more texts. It is overwritten in place to make room for another.
type piece struct {
	used atomic.Bool // since the clock's hand passed
	content
	cost int64 // bytes of the slices
}

type content struct {
	serial uint64 // never used twice; 0 is no piece
	key    key
	raw    []byte
	ids    []uint32
	hashes []radix.Hash // of the blocks that end in this piece
	block  int          // tokens a block; 0 when hashes are not known
}

// key names a piece by the one before it and a seeded hash of its bytes.
type key struct{ parent, sum uint64 }

// is reports whether the content is raw, with hashes of such blocks.
func (c *content) is(raw []byte, block int) bool { return c.block == block && bytes.Equal(raw, c.raw) }

// The capacities of a piece's slices are rounded up, so that most pieces fit where another one was.
const (
	rawStep    = 1024
	idsStep    = 256
	hashesStep = 64
	// fixedBytes is a piece without its slices: itself, its place in the ring, and its slot in a
	// map that is half full on average.
	fixedBytes = int64(unsafe.Sizeof(piece{})) + 8 + 2*int64(unsafe.Sizeof(key{})+8)
)

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// memory is the bytes of slices that c fits into.
func (c *content) memory() int64 {
	return int64(roundUp(len(c.raw), rawStep)) + 4*int64(roundUp(len(c.ids), idsStep)) + 8*int64(roundUp(len(c.hashes), hashesStep))
}

// fits reports whether c fits into p's slices.
func (p *piece) fits(c *content) bool {
	return cap(p.raw) >= len(c.raw) && cap(p.ids) >= len(c.ids) && cap(p.hashes) >= len(c.hashes)
}

// fill copies c into p.
func (p *piece) fill(c *content) {
	if !p.fits(c) {
		p.raw = make([]byte, 0, roundUp(len(c.raw), rawStep))
		p.ids = make([]uint32, 0, roundUp(len(c.ids), idsStep))
		p.hashes = make([]radix.Hash, 0, roundUp(len(c.hashes), hashesStep))
	}
	p.serial, p.key, p.block = c.serial, c.key, c.block
	p.raw = append(p.raw[:0], c.raw...)
	p.ids = append(p.ids[:0], c.ids...)
	p.hashes = append(p.hashes[:0], c.hashes...)
}
