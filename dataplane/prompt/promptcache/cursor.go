package promptcache

import "github.com/warmpath/warmpath/radix"

// Root is the beginning of all texts of one tokenizer. Texts of different roots share nothing,
// since equal bytes have other ids there.
type Root struct {
	start  piece // before the first piece of all texts; holds nothing
	serial uint64
}

// NewRoot returns the root of a tokenizer.
func (c *Cache) NewRoot() *Root { return &Root{serial: c.serial.Add(1)} }

// Encoder makes the ids of a text, and finds its cuts.
type Encoder interface {
	// Cut returns the length of a piece of rest that should be remembered: the ids of rest are
	// those of rest[:n] and then those of rest[n:]. Rest is the end of a text, from its beginning
	// or from a cut on. It returns 0 where no cut is left; then the rest is encoded at once and not
	// remembered. Texts that begin alike should be cut alike.
	Cut(rest []byte) (n int)
	// Append appends the ids of a text, or of a piece that Cut returned. After an error the ids
	// are not remembered.
	Append(ids []uint32, text []byte) ([]uint32, error)
}

// Cursor encodes one text after another with the help of a cache. Reuse it: it keeps its memory.
type Cursor struct {
	cache *Cache
	block int          // tokens a block, as of the last text
	chain []radix.Hash // of the leading blocks of the text
	end   position
}

// maxReusedHashes bounds the memory that a cursor keeps for the next text: 1 MiB.
const maxReusedHashes = 128 << 10

// position is the end of the known pieces of a text.
type position struct {
	piece  *piece // the last one; its hint is ours to set, though it may be overwritten by now
	serial uint64 // of that piece when it was read
	bytes  int
	ids    int
}

// NewCursor returns a cursor over c.
func (c *Cache) NewCursor() *Cursor { return &Cursor{cache: c} }

// Encode appends the ids of text to ids, from memory for the leading pieces that are known. Chain
// then returns the hashes of the blocks that end in remembered pieces; ids should be empty, since
// blocks count from its beginning. Errors are those of the encoder.
func (c *Cursor) Encode(r *Root, ids []uint32, text []byte, enc Encoder) ([]uint32, error) {
	if c.block, c.chain = c.cache.blockSize(), c.chain[:0]; cap(c.chain) > maxReusedHashes {
		c.chain = nil
	}
	c.end = position{piece: &r.start, serial: r.serial}
	base, known := len(ids), 0
	for {
		rest := text[c.end.bytes:]
		n := enc.Cut(rest)
		if n == 0 {
			c.count(known, len(text))
			return enc.Append(ids, rest)
		}
		if c.takeKnown(rest[:n], &ids) {
			known = c.end.bytes
			continue
		}
		var err error
		if ids, err = enc.Append(ids, rest[:n]); err != nil {
			return ids, err
		}
		if !c.remember(rest[:n], ids[base:]) {
			// Slow path: there is no room, or another request adds the same piece just now.
			c.count(known, len(text))
			return c.encodeRest(ids, rest[n:], enc)
		}
	}
}

// takeKnown moves behind the remembered piece that is exactly raw.
func (c *Cursor) takeKnown(raw []byte, ids *[]uint32) bool {
	// Fast path: the text continues as the previous one did.
	if p := c.end.piece.next.Load(); p != nil && c.take(p, raw, ids) {
		return true
	}
	k, s := c.cache.keyOf(c.end.serial, raw)
	p := s.find(k)
	return p != nil && c.take(p, raw, ids)
}

// take moves behind p if it is exactly raw, and appends its ids where they are asked for.
func (c *Cursor) take(p *piece, raw []byte, ids *[]uint32) bool {
	if !p.pin() {
		return false
	}
	defer p.unpin()
	if !p.is(c.end.serial, raw, c.block) {
		return false
	}
	if ids != nil {
		*ids = append(*ids, p.ids...)
	}
	c.chain = append(c.chain, p.hashes...)
	if !p.used.Load() {
		p.used.Store(true)
	}
	c.move(p, p.serial, len(p.raw), len(p.ids))
	return true
}

// setNext makes p the first piece to try behind this position, unless there is another one already:
// where many texts differ behind a piece, changing the hint each time would only cost.
func (a *position) setNext(p *piece) {
	if next := a.piece.next.Load(); next != p && !next.follows(a.serial) {
		a.piece.next.Store(p)
	}
}

// move goes behind p, and makes p the hint for the next text.
func (c *Cursor) move(p *piece, serial uint64, bytes, ids int) {
	c.end.setNext(p)
	c.end = position{piece: p, serial: serial, bytes: c.end.bytes + bytes, ids: c.end.ids + ids}
}

// remember makes the next piece, with the last of ids.
func (c *Cursor) remember(raw []byte, ids []uint32) bool {
	k, s := c.cache.keyOf(c.end.serial, raw)
	if p := s.find(k); p != nil && c.take(p, raw, nil) {
		return true
	}
	return c.add(s, k, raw, ids)
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

// encodeRest encodes the rest of a text that cannot be remembered, piece by piece: one of them may
// be cheaper to encode than all.
func (c *Cursor) encodeRest(ids []uint32, rest []byte, enc Encoder) ([]uint32, error) {
	for {
		n := enc.Cut(rest)
		if n == 0 {
			return enc.Append(ids, rest)
		}
		var err error
		if ids, err = enc.Append(ids, rest[:n]); err != nil {
			return ids, err
		}
		rest = rest[n:]
	}
}

// count adds a text of n bytes, the first of which were known, to the counters.
func (c *Cursor) count(known, n int) {
	if known > 0 {
		c.cache.known.Add(1)
	} else {
		c.cache.fresh.Add(1)
	}
	c.cache.recalled.Add(uint64(known))
	c.cache.encoded.Add(uint64(n - known))
}

// Chain returns the hashes of the leading blocks of the last text, and the tokens a block. It is
// valid until the next Encode.
func (c *Cursor) Chain() (hashes []radix.Hash, block int) { return c.chain, c.block }
