package radix

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/warmpath/warmpath/radix/internal/keyed"
)

// SnapshotWriter writes a snapshot while others read and write the index. It locks one worker
// at a time, so each worker's blocks are of one moment, but those of two workers may not be. The
// lock is held while the runs are noted, with the bits and entries that tell which of their blocks
// the worker has: some 0.2 µs for each run, however long it is. Hashes never change, and are read
// without it. Between Take and Flush a run takes some 160 bytes and an entry 24. It is for one
// goroutine.
//
// The snapshot has the index's seed: a reader of the file can prepare prompts that collide.
// Keep it from other users.
type SnapshotWriter struct {
	x       *Index
	out     io.WriteCloser
	domains map[Domain]uint64 // numbers of those written
	taken   []*capture
	buf     []byte
	count   SnapshotCounts
	err     error // the first one; nothing is written after it
}

// NewSnapshotWriter begins a snapshot of x on w.
func NewSnapshotWriter(x *Index, w io.Writer) (*SnapshotWriter, error) {
	if _, err := w.Write(append([]byte(snapshotMagic), snapshotVersion)); err != nil {
		return nil, fmt.Errorf("cannot begin snapshot: %w", err)
	}
	out, err := zstd.NewWriter(w,
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(snapshotWindow))
	if err != nil {
		return nil, fmt.Errorf("cannot begin snapshot: %w", err)
	}
	return newRecordWriter(x, out), nil
}

// newRecordWriter begins the records of a snapshot.
func newRecordWriter(x *Index, out io.WriteCloser) *SnapshotWriter {
	s := &SnapshotWriter{x: x, out: out, domains: make(map[Domain]uint64)}
	s.word(x.seed)
	s.word(x.fingerprint())
	return s
}

// Take notes the present blocks of a worker under a name, which need not be unique, with meta
// for the caller's own use. It does no I/O, so the caller may hold a lock that keeps the worker
// unchanged; Flush encodes and writes the blocks.
func (s *SnapshotWriter) Take(w Worker, name string, meta []byte) error {
	if len(name) > maxText || len(meta) > maxText || s.count.Workers == maxSnapshotWorkers {
		return fmt.Errorf("cannot take worker %d of %d, name of %d bytes, meta of %d: too large",
			w, s.count.Workers, len(name), len(meta))
	}
	o := s.x.workers.lock(w)
	if o == nil {
		return fmt.Errorf("cannot take worker %d: %w", w, ErrUnknownWorker)
	}
	defer o.mu.Unlock()
	s.count.Workers++
	s.count.Entries += o.entries.len + o.listed
	c := &capture{
		out: s, name: name, meta: string(meta),
		order: make([]*takenRun, 0, o.holdings.count()), held: make([]*takenRun, len(o.holdings.list)),
		bare: make(map[*run]*takenRun), named: make(map[blockAt]uint64), absent: make(map[uint64]bool),
	}
	c.takeLocked(o)
	s.taken = append(s.taken, c)
	return nil
}

// Flush writes the workers taken since the last Flush.
func (s *SnapshotWriter) Flush() error {
	for _, c := range s.taken {
		c.write()
	}
	s.taken = nil
	s.spill(0)
	return s.err
}

// spill writes the buffer if it has more than n bytes.
func (s *SnapshotWriter) spill(n int) {
	if len(s.buf) <= n {
		return
	}
	if s.err == nil {
		if _, err := s.out.Write(s.buf); err != nil {
			s.err = fmt.Errorf("cannot write snapshot: %w", err)
		}
	}
	s.buf = s.buf[:0]
}

// Close ends the snapshot and returns its sizes. The underlying writer stays open.
func (s *SnapshotWriter) Close() (SnapshotCounts, error) {
	_ = s.Flush() // its error stays in s.err
	s.buf = append(s.buf, recordEnd)
	s.number(s.count.Workers)
	s.spill(0)
	if err := s.out.Close(); err != nil && s.err == nil {
		s.err = fmt.Errorf("cannot end snapshot: %w", err)
	}
	return s.count, s.err
}

func (s *SnapshotWriter) number(v int) { s.buf = binary.AppendUvarint(s.buf, uint64(v)) }

func (s *SnapshotWriter) word(v uint64) { s.buf = binary.LittleEndian.AppendUint64(s.buf, v) }

func (s *SnapshotWriter) text(v string) {
	s.number(len(v))
	s.buf = append(s.buf, v...)
}

// domain returns the number of a domain, behind its record.
func (s *SnapshotWriter) domain(d Domain) int {
	if n, ok := s.domains[d]; ok {
		return int(n)
	}
	k := s.x.tree.domains.key(d)
	s.buf = append(s.buf, recordDomain)
	s.text(k.Model)
	s.number(k.BlockSize)
	s.text(k.LoRA)
	s.text(k.Salt)
	bigram := byte(0)
	if k.Bigram {
		bigram = 1
	}
	s.buf = append(s.buf, bigram)
	n := len(s.domains)
	s.domains[d] = uint64(n)
	return n
}

// remove writes that a worker loses so many copies of a block.
func (s *SnapshotWriter) remove(t Tier, times int, engineHash uint64) {
	s.buf = append(s.buf, recordRemove)
	s.number(int(t))
	s.number(times)
	s.word(engineHash)
}

// capture is one worker at the moment of Take. It is written later, from the hashes of views,
// which do not change, and copies of all that a writer of the worker changes.
type capture struct {
	out        *SnapshotWriter
	name, meta string
	order      []*takenRun        // parents first
	held       []*takenRun        // by the handle of the worker's holding
	bare       map[*run]*takenRun // those that it has no holding on
	entries    []entry
	aliases    []takenAlias
	named      map[blockAt]uint64 // engine hashes of blocks that are held by entries, or not at all
	absent     map[uint64]bool    // engine hashes for blocks that the worker lacks
}

// takenRun is a run with blocks that the worker holds, or that lead to one.
type takenRun struct {
	run    *run
	parent *takenRun       // nil: the run begins its domain
	view   *runView        // a later one may lack blocks that are needed
	listed [tiers][]uint64 // of the worker's holding
	blocks int             // of the run, up to the last one needed
	parts  []takenPart
}

// takenAlias is an alias of the worker.
type takenAlias struct {
	key uint64
	alias
}

// takenPart is a stretch of a run that the worker has in a tier, some times under each of the
// engine hashes.
type takenPart struct {
	offset       int
	tier         Tier
	times        int
	engineHashes []uint64
}

type blockAt struct {
	run    *run
	offset int
}

// takeLocked notes the blocks of the worker, which is locked.
func (c *capture) takeLocked(w *worker) {
	for _, h := range w.holdings.list {
		if h != nil {
			c.need(w, h.run, h.end())
		}
	}
	c.entries = slices.Clone(w.entries.slots)
	for key, a := range w.aliases {
		c.aliases = append(c.aliases, takenAlias{key, alias{slices.Clone(a.blocks), a.removals}})
	}
	for _, r := range c.order {
		h := w.on(r.run)
		for from := 0; from < r.blocks; from += 64 {
			lacks := bitRange(from/64, 0, r.blocks)
			if h != nil {
				lacks &^= h.word(from/64) | h.pinnedWord(from/64)
			}
			for ; lacks != 0; lacks &= lacks - 1 {
				c.standIn(w, r, from+bits.TrailingZeros64(lacks))
			}
		}
	}
}

// need notes that the first n blocks of a run are needed, and all that lead to it.
func (c *capture) need(w *worker, r *run, n int) {
	first := len(c.order)
	var child *takenRun
	for ; r.parent != nil; n, r = int(r.offset), r.parent {
		h, taken := w.on(r), c.bare[r]
		if h != nil {
			taken = c.held[h.handle]
		}
		known := taken != nil
		if !known {
			taken = c.add(r, h)
		}
		if taken.blocks = max(taken.blocks, n); child != nil {
			child.parent = taken
		}
		if child = taken; known {
			break
		}
	}
	slices.Reverse(c.order[first:])
}

// add notes a run, with the worker's holding on it or none.
func (c *capture) add(r *run, h *holding) *takenRun {
	taken := &takenRun{run: r, view: r.view.Load()}
	c.order = append(c.order, taken)
	if r.parent.parent == nil {
		c.out.domain(r.domain) // its key may be gone later
	}
	if h == nil {
		c.bare[r] = taken
		return taken
	}
	c.held[h.handle] = taken
	for t := range h.listed {
		taken.listed[t] = slices.Clone(h.listed[t])
	}
	return taken
}

// standIn notes a block that the worker lacks, and an engine hash for it: the one that its run
// lists, unless the worker has it elsewhere.
func (c *capture) standIn(w *worker, r *takenRun, offset int) {
	key := r.engineHashes()[offset]
	for w.entries.find(key) != nil || w.findListed(&c.out.x.tree.blocks, key).holding != nil || c.absent[key] {
		key = keyed.Fold(key^spread, uint64(offset)+r.run.id)
	}
	c.absent[key] = true
	c.named[blockAt{r.run, offset}] = key
	r.parts = append(r.parts, takenPart{offset, TierGPU, 1, []uint64{key}})
}

// write writes the records of the worker.
func (c *capture) write() {
	s := c.out
	s.buf = append(s.buf, recordWorker)
	s.text(c.name)
	s.text(c.meta)
	for i := range c.entries {
		if e := &c.entries[i]; !e.empty() && e.handle != aliased {
			c.entry(c.held[e.handle], e.offset, e.copies, e.key)
		}
	}
	slices.SortFunc(c.aliases, func(a, b takenAlias) int { return cmp.Compare(a.key, b.key) })
	for _, a := range c.aliases {
		for _, b := range a.blocks {
			c.entry(c.held[b.holding.handle], b.offset, b.copies, a.key)
		}
	}
	for _, r := range c.order {
		c.writeRun(r)
	}
	for _, key := range slices.Sorted(maps.Keys(c.absent)) {
		s.remove(TierGPU, 1, key)
	}
	for _, a := range c.aliases {
		for t, n := range a.removals {
			if n > 0 {
				s.remove(Tier(t), n, a.key)
			}
		}
	}
}

// entry notes the copies of an entry, or of an alias in one domain.
func (c *capture) entry(r *takenRun, offset uint32, n copies, key uint64) {
	c.named[blockAt{r.run, int(offset)}] = key
	for t, times := range n {
		if times > 0 {
			r.parts = append(r.parts, takenPart{int(offset), Tier(t), int(times), []uint64{key}})
		}
	}
}

// writeRun writes the parts of a run from its beginning on, so that each part has a parent.
func (c *capture) writeRun(r *takenRun) {
	for t, words := range r.listed {
		for from := nextBit(words, 0, 0); from < 64*len(words); {
			to := nextBit(words, from, ^uint64(0))
			r.parts = append(r.parts, takenPart{from, Tier(t), 1, r.engineHashes()[from:to:to]})
			from = nextBit(words, to, 0)
		}
	}
	slices.SortStableFunc(r.parts, func(a, b takenPart) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.tier, b.tier), cmp.Compare(a.engineHashes[0], b.engineHashes[0]))
	})
	last := (*takenPart)(nil)
	for i := range r.parts {
		p := &r.parts[i]
		// Neighbours that are held by entries are one part.
		if last != nil && last.offset+len(last.engineHashes) == p.offset && last.tier == p.tier && last.times == p.times {
			last.engineHashes = append(last.engineHashes, p.engineHashes...)
			continue
		}
		if last != nil {
			c.store(r, last)
		}
		last = p
	}
	if last != nil {
		c.store(r, last)
	}
}

func (c *capture) store(r *takenRun, p *takenPart) {
	s := c.out
	s.spill(spillBytes)
	s.buf = append(s.buf, recordStore)
	s.number(int(p.tier))
	s.number(s.domain(r.run.domain))
	switch {
	case p.offset > 0:
		s.number(1)
		s.word(c.nameOf(r, p.offset-1))
	case r.parent != nil:
		s.number(1)
		s.word(c.nameOf(r.parent, int(r.run.offset)-1))
	default:
		s.number(0)
	}
	s.number(p.times)
	s.number(len(p.engineHashes))
	for _, h := range r.view.all()[p.offset:][:len(p.engineHashes)] {
		s.word(uint64(h))
	}
	for _, h := range p.engineHashes {
		s.word(h)
	}
}

// nameOf returns an engine hash by which the loaded worker knows a block.
func (c *capture) nameOf(r *takenRun, offset int) uint64 {
	for _, words := range r.listed {
		if bit(words, uint32(offset)) {
			return r.engineHashes()[offset]
		}
	}
	return c.named[blockAt{r.run, offset}]
}

// engineHashes returns the engine hashes that the run lists.
func (r *takenRun) engineHashes() []uint64 { return countedWords(r.view.engineHashes()) }

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
