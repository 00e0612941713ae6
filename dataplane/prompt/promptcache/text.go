package promptcache

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

// Encode appends the ids of text to ids, from memory for the leading pieces that are known. Chain
// then returns the hashes of the blocks that end in remembered pieces; ids should be empty, since
// blocks count from its beginning. Errors are those of the encoder.
func (c *Cursor) Encode(r *Root, ids []uint32, text []byte, enc Encoder) ([]uint32, error) {
	c.block, c.chain = c.cache.blockSize(), c.chain[:0]
	c.end, c.missing = position{piece: &r.start, serial: r.serial}, key{}
	base, known := len(ids), 0
	for {
		rest := text[c.end.bytes:]
		n := enc.Cut(rest)
		if n == 0 {
			c.countText(known, len(text))
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
			c.countText(known, len(text))
			return c.encodeRest(ids, rest[n:], enc)
		}
	}
}

// takeKnown moves behind the remembered piece that is exactly raw.
func (c *Cursor) takeKnown(raw []byte, ids *[]uint32) bool {
	if p := c.end.piece.next.Load(); p != nil && c.takeWhole(p, raw, ids) {
		return true
	}
	k, s := c.cache.keyOf(c.end.serial, raw)
	p := s.find(k)
	return p != nil && c.takeWhole(p, raw, ids)
}

// takeWhole is take for a piece as long as raw: the cuts of a text depend on the text behind them.
func (c *Cursor) takeWhole(p *piece, raw []byte, ids *[]uint32) bool {
	if !p.pin() {
		return false
	}
	defer p.unpin()
	if len(p.raw) != len(raw) || !p.continues(c.end.serial, raw, c.block) {
		return false
	}
	c.accept(p, ids)
	return true
}

// remember makes the next piece, with the last of ids.
func (c *Cursor) remember(raw []byte, ids []uint32) bool {
	k, s := c.cache.keyOf(c.end.serial, raw)
	if p := s.find(k); p != nil && c.takeWhole(p, raw, nil) {
		return true
	}
	return c.add(s, k, raw, ids)
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

// countText adds a text of n bytes, the first of which were known, to the counters.
func (c *Cursor) countText(known, n int) {
	if known > 0 {
		c.cache.known.Add(1)
	} else {
		c.cache.fresh.Add(1)
	}
	c.cache.recalled.Add(uint64(known))
	c.cache.parsed.Add(uint64(n - known))
}
