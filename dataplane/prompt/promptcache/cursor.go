package promptcache

import "github.com/warmpath/warmpath/radix"

// Root is the beginning of all texts of one tokenizer. Texts of different roots share nothing,
// since equal bytes have other ids there.
type Root struct{ serial uint64 }

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
}

// maxReusedHashes bounds the memory that a cursor keeps for the next text: 1 MiB.
const maxReusedHashes = 128 << 10

// NewCursor returns a cursor over c.
func (c *Cache) NewCursor() *Cursor { return &Cursor{cache: c} }

// Encode appends the ids of text to ids, from memory for the leading pieces that are known. Chain
// then returns the hashes of the blocks that end in remembered pieces; ids should be empty, since
// blocks count from its beginning. Errors are those of the encoder.
func (c *Cursor) Encode(r *Root, ids []uint32, text []byte, enc Encoder) ([]uint32, error) {
	if c.block, c.chain = c.cache.blockSize(), c.chain[:0]; cap(c.chain) > maxReusedHashes {
		c.chain = nil
	}
	base, known := len(ids), 0
	at := r.serial // of the piece before rest; 0: that is not remembered
	rest := text
	for n := enc.Cut(rest); n > 0; n = enc.Cut(rest) {
		raw := rest[:n]
		rest = rest[n:]
		var k key
		var s *shard
		if at != 0 {
			k, s = c.cache.keyOf(at, raw)
			var found uint64
			if found, ids, c.chain = s.recall(k, raw, c.block, ids, c.chain); found != 0 {
				at, known = found, len(text)-len(rest)
				continue
			}
		}
		before := len(ids)
		var err error
		if ids, err = enc.Append(ids, raw); err != nil {
			return ids, err
		}
		if at != 0 {
			at = c.remember(s, k, raw, ids[base:], before-base)
		}
	}
	c.count(known, len(text))
	return enc.Append(ids, rest)
}

// remember makes a piece of raw and of ids from the index from on, and returns its serial; 0 where
// there is no room.
func (c *Cursor) remember(s *shard, k key, raw []byte, ids []uint32, from int) uint64 {
	blocks := len(c.chain)
	if c.block > 0 {
		c.chain = c.cache.index.AppendHashes(c.chain, ids[blocks*c.block:], c.block)
	}
	return s.add(&content{
		serial: c.cache.serial.Add(1), key: k, raw: raw, ids: ids[from:], hashes: c.chain[blocks:], block: c.block,
	})
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
