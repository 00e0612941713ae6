package promptcache

import (
	"bytes"

	"github.com/warmpath/warmpath/radix"
)

// Cursor reads one list of ids after another with the help of a cache. Reuse it: it keeps its
// memory.
type Cursor struct {
	cache   *Cache
	block   int          // tokens a block, as of the last Recall
	chain   []radix.Hash // of the leading blocks of the list
	end     position
	missing key // the first unknown piece; zero without one
}

// maxReusedHashes bounds the memory that a cursor keeps for the next list: 1 MiB.
const maxReusedHashes = 128 << 10

// position is the end of the known pieces of a list.
type position struct {
	piece  *piece // the last one; its hint is ours to set, though it may be overwritten by now
	serial uint64 // of that piece when it was read
	bytes  int
	ids    int
}

// NewCursor returns a cursor over c.
func (c *Cache) NewCursor() *Cursor { return &Cursor{cache: c} }

// Recall appends to ids the known ids at the beginning of raw, and returns the number of bytes of
// raw that they take: none, or up to and with a comma. raw is a list of ids from its first element
// on, with the rest of the body behind it.
func (c *Cursor) Recall(ids []uint32, raw []byte) (known []uint32, n int) {
	if c.block, c.chain = c.cache.blockSize(), c.chain[:0]; cap(c.chain) > maxReusedHashes {
		c.chain = nil
	}
	c.end, c.missing = position{piece: &c.cache.start}, key{}
	for len(raw)-c.end.bytes >= maxPieceBytes {
		rest := raw[c.end.bytes:]
		// Fast path: the list continues as the previous one did.
		p := c.end.piece.next.Load()
		if p == nil || !c.take(p, rest, &ids) {
			end := pieceEnd(rest)
			if end == 0 {
				break
			}
			k, s := c.cache.keyOf(c.end.serial, rest[:end])
			if p = s.find(k); p == nil || !c.take(p, rest, &ids) {
				c.missing = k
				break
			}
		}
	}
	return ids, c.end.bytes
}

// setNext makes p the first piece to try behind this position, unless there is another one already:
// where many lists differ behind a piece, changing the hint each time would only cost.
func (a *position) setNext(p *piece) {
	if next := a.piece.next.Load(); next != p && !next.follows(a.serial) {
		a.piece.next.Store(p)
	}
}

// take moves behind p if rest begins with p, and appends its ids where they are asked for.
func (c *Cursor) take(p *piece, rest []byte, ids *[]uint32) bool {
	if !p.pin() {
		return false
	}
	defer p.unpin()
	if !p.continues(c.end.serial, rest, c.block) {
		return false
	}
	c.accept(p, ids)
	return true
}

// accept moves behind p, which is pinned, and appends its ids where they are asked for.
func (c *Cursor) accept(p *piece, ids *[]uint32) {
	if ids != nil {
		*ids = append(*ids, p.ids...)
	}
	c.chain = append(c.chain, p.hashes...)
	if !p.used.Load() {
		p.used.Store(true)
	}
	c.move(p, p.serial, len(p.raw), len(p.ids))
}

// move goes behind p, and makes p the hint for the next list.
func (c *Cursor) move(p *piece, serial uint64, bytes, ids int) {
	c.end.setNext(p)
	c.end = position{piece: p, serial: serial, bytes: c.end.bytes + bytes, ids: c.end.ids + ids}
}

// Learn remembers the list of the last Recall: raw, now from its first element to its bracket, and
// all of its ids. If its first unknown piece has not come before, only the fingerprint of that
// piece is noted.
func (c *Cursor) Learn(raw []byte, ids []uint32) {
	c.count(len(raw))
	if c.missing == (key{}) || !c.cache.fingerprints.checkAndSet(c.missing) {
		return
	}
	for {
		rest := raw[c.end.bytes:]
		end := pieceEnd(rest)
		if end == 0 {
			return
		}
		k, s := c.cache.keyOf(c.end.serial, rest[:end])
		// Another cursor may have added the piece meanwhile.
		if p := s.find(k); p != nil && c.take(p, rest, nil) {
			continue
		}
		n := bytes.Count(rest[:end], []byte{','})
		if !c.add(s, k, rest[:end], ids[:c.end.ids+n]) {
			return
		}
	}
}

// add makes the next piece, of raw and the ids behind those of the pieces before. It returns false
// where there is no room.
func (c *Cursor) add(s *shard, k key, raw []byte, ids []uint32) bool {
	blocks := len(c.chain)
	if c.block > 0 {
		c.chain = c.cache.index.AppendHashes(c.chain, ids[blocks*c.block:], c.block)
	}
	next := content{
		serial: c.cache.serial.Add(1), key: k, raw: raw, ids: ids[c.end.ids:], hashes: c.chain[blocks:], block: c.block,
	}
	p := s.add(&next)
	if p == nil {
		return false
	}
	c.move(p, next.serial, len(raw), len(ids)-c.end.ids)
	return true
}

// count adds a list of n bytes to the counters, when it is long enough for a piece.
func (c *Cursor) count(n int) {
	if n < maxPieceBytes {
		return
	}
	if c.end.bytes > 0 {
		c.cache.known.Add(1)
	} else {
		c.cache.fresh.Add(1)
	}
	c.cache.recalled.Add(uint64(c.end.bytes))
	c.cache.parsed.Add(uint64(n - c.end.bytes))
}

// Chain returns the hashes of the leading blocks of the last list, and the tokens a block. It is
// valid until the next Recall.
func (c *Cursor) Chain() (hashes []radix.Hash, block int) { return c.chain, c.block }
