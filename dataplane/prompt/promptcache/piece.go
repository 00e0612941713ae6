package promptcache

import (
	"bytes"
	"sync/atomic"
	"unsafe"

	"github.com/warmpath/warmpath/radix"
)

// A writer adds exclusive to pins, which keeps them negative for all readers.
const exclusive = -1 << 30

const noPiece = ^uint64(0)

// piece is a part of one or more texts. It is overwritten in place to make room for another, so its
// content may change behind a pointer to it: see pin.
type piece struct {
	pins atomic.Int32          // readers, or exclusive
	used atomic.Bool           // since the clock's hand passed
	next atomic.Pointer[piece] // hint: a piece that came behind this one

	// Written by its exclusive owner, read while pinned.
	content

	cost int64 // bytes of the slices; guarded by the shard's lock
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

// pin keeps p as it is until unpin; false when it is being overwritten.
func (p *piece) pin() bool {
	if p.pins.Add(1) > 0 {
		return true
	}
	p.pins.Add(-1)
	return false
}

func (p *piece) unpin() { p.pins.Add(-1) }

// lock keeps readers out until unlock; false when there are some.
func (p *piece) lock() bool { return p.pins.CompareAndSwap(0, exclusive) }

func (p *piece) unlock() { p.pins.Add(-exclusive) }

// is reports whether p is raw behind the piece parent. p is pinned.
func (p *piece) is(parent uint64, raw []byte, block int) bool {
	return p.key.parent == parent && p.block == block && bytes.Equal(raw, p.raw)
}

// follows reports whether p is a piece behind parent.
func (p *piece) follows(parent uint64) bool {
	if p == nil || !p.pin() {
		return false
	}
	defer p.unpin()
	return p.key.parent == parent
}

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

// fits reports whether c fits into p's slices. p is the caller's alone.
func (p *piece) fits(c *content) bool {
	return cap(p.raw) >= len(c.raw) && cap(p.ids) >= len(c.ids) && cap(p.hashes) >= len(c.hashes)
}

// fill copies c into p, which is the caller's alone.
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

// empty empties p, which is the caller's alone.
func (p *piece) empty() { p.content = content{serial: noPiece, key: key{parent: noPiece}} }
