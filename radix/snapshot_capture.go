package radix

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// capturer copies workers for a snapshot.
type capturer struct {
	x       *Index
	written map[uint64]writtenStretch // by run id

	prefixes []runPrefix // scratch
	bounds   []int       // scratch
}

// writtenStretch is the part of a run that the snapshot has.
type writtenStretch struct{ number, blocks uint32 }

// workerImage is a copy of one worker.
type workerImage struct {
	name     string
	meta     []byte
	parts    []stretchPart // the blocks that the snapshot lacks, parents first
	holdings int
	body     []byte // the holdings, encoded
	entries  []entryRecord
	aliases  map[uint64]aliasRecord
	hashes   int // engine hashes
}

// stretchPart is a new stretch, or an extension. Its slices alias the run's, whose content
// never changes.
type stretchPart struct {
	number       uint32 // of the stretch
	fresh        bool   // a new stretch
	root         bool   // it begins a domain's chains
	parent       uint32 // number of the parent's stretch, unless root
	offset       uint32 // blocks of the parent before it
	domain       Domain // if root
	key          DomainKey
	blocks       []Hash
	engineHashes []uint64
}

// blockRecord is a block of a stretch, with copies.
type blockRecord struct {
	stretch, offset uint32
	copies          copies
}

type entryRecord struct {
	key uint64
	at  blockRecord
}

type aliasRecord struct {
	blocks   []blockRecord
	removals [tiers]int
}

// runPrefix is the first blocks of a run.
type runPrefix struct {
	run    *run
	blocks uint32
}

// worker copies a worker with its lock held. Its holdings keep their runs and all runs above
// unchanged, as far as the copy reads them.
func (c *capturer) worker(id Worker) (workerImage, error) {
	w := c.x.workers.lock(id)
	if w == nil {
		return workerImage{}, fmt.Errorf("cannot take worker %d: %w", id, ErrUnknownWorker)
	}
	defer w.mu.Unlock()
	im := workerImage{hashes: w.entries.len + w.listed}
	last := uint32(0)
	for _, h := range w.holdings.list {
		if h == nil {
			continue
		}
		n := c.stretchLocked(&im, h.run, h.end())
		im.holdings++
		im.body = binary.AppendVarint(im.body, int64(n)-int64(last))
		for t := range h.listed {
			im.body = c.pieces(im.body, h.listed[t])
		}
		last = n
	}
	im.entries = make([]entryRecord, 0, w.entries.len-len(w.aliases))
	for i := range w.entries.slots {
		if e := &w.entries.slots[i]; !e.empty() && e.handle != aliased {
			im.entries = append(im.entries, entryRecord{e.key, c.block(w.ref(e))})
		}
	}
	im.aliases = make(map[uint64]aliasRecord, len(w.aliases))
	for key, a := range w.aliases {
		r := aliasRecord{removals: a.removals}
		for _, b := range a.blocks {
			r.blocks = append(r.blocks, c.block(b))
		}
		im.aliases[key] = r
	}
	return im, nil
}

func (c *capturer) block(b blockRef) blockRecord {
	return blockRecord{c.written[b.holding.run.id].number, b.offset, b.copies}
}

// stretchLocked returns the number of a run's stretch, and adds to the parts the blocks that
// the snapshot lacks of the run's first blocks and of those that lead to it. The worker that
// holds the last of these blocks is locked.
func (c *capturer) stretchLocked(im *workerImage, r *run, blocks int) uint32 {
	c.prefixes = c.prefixes[:0]
	q, n := r, uint32(blocks)
	for q.parent != nil && c.written[q.id].blocks < n {
		c.prefixes = append(c.prefixes, runPrefix{q, n})
		q, n = q.parent, q.offset
	}
	for _, prefix := range slices.Backward(c.prefixes) {
		q := prefix.run
		have, old := c.written[q.id]
		if !old {
			have.number = uint32(len(c.written))
		}
		p := stretchPart{number: have.number, fresh: !old, offset: q.offset, domain: q.domain}
		p.parent, p.root = c.written[q.parent.id].number, q.parent.parent == nil
		if p.root {
			p.key = c.x.tree.domains.key(q.domain) // now: it may be freed before Flush
		}
		p.blocks = q.view.Load().all()[have.blocks:prefix.blocks]
		p.engineHashes = q.listed()[have.blocks:prefix.blocks]
		im.parts = append(im.parts, p)
		c.written[q.id] = writtenStretch{have.number, prefix.blocks}
	}
	return c.written[r.id].number
}

// pieces encodes the set bits: the number of pieces, and for each the bits left out before it
// and its length.
func (c *capturer) pieces(dst []byte, words []uint64) []byte {
	c.bounds = c.bounds[:0]
	for from := nextBit(words, 0, 0); from < 64*len(words); {
		to := nextBit(words, from, ^uint64(0))
		c.bounds = append(c.bounds, from, to)
		from = nextBit(words, to, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.bounds)/2))
	last := 0
	for _, at := range c.bounds {
		dst = binary.AppendUvarint(dst, uint64(at-last))
		last = at
	}
	return dst
}

// nextBit returns the first bit from i on that is set in words ^ flip, or the number of bits.
func nextBit(words []uint64, i int, flip uint64) int {
	for w := i / 64; w < len(words); w++ {
		if v := (words[w] ^ flip) >> (i % 64); v != 0 {
			return i + bits.TrailingZeros64(v)
		}
		i = 64 * (w + 1)
	}
	return 64 * len(words)
}
