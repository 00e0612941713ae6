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
// at a time, so each worker's blocks are of one moment, but those of two workers may not be.
// Between Take and Flush it has some 16 bytes for each block that was taken. It is for one
// goroutine.
//
// The snapshot has the index's seed: a reader of the file can prepare prompts that collide.
// Keep it from other users.
type SnapshotWriter struct {
	x       *Index
	out     io.WriteCloser
	domains map[Domain]uint64 // numbers of those written
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

// Take copies the present blocks of a worker under a name, which need not be unique, with meta
// for the caller's own use. It does no I/O, so the caller may hold a lock that keeps the worker
// unchanged; Flush writes the copy.
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
	s.buf = append(s.buf, recordWorker)
	s.text(name)
	s.text(string(meta))
	c := capture{out: s, worker: o, runs: make(map[*run]*takenRun), named: make(map[blockAt]uint64), absent: make(map[uint64]bool)}
	c.writeLocked()
	return nil
}

// Flush writes the workers taken since the last Flush.
func (s *SnapshotWriter) Flush() error {
	if s.err == nil {
		if _, err := s.out.Write(s.buf); err != nil {
			s.err = fmt.Errorf("cannot write snapshot: %w", err)
		}
	}
	s.buf = s.buf[:0]
	return s.err
}

// Close ends the snapshot and returns its sizes. The underlying writer stays open.
func (s *SnapshotWriter) Close() (SnapshotCounts, error) {
	s.buf = append(s.buf, recordEnd)
	s.number(s.count.Workers)
	_ = s.Flush() // its error stays in s.err
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

// capture writes one worker, which is locked. Its holdings keep their runs and all runs above
// unchanged, as far as the copy reads them.
type capture struct {
	out    *SnapshotWriter
	worker *worker
	runs   map[*run]*takenRun
	order  []*takenRun        // parents first
	named  map[blockAt]uint64 // engine hashes of blocks that are held by entries, or not at all
	absent map[uint64]bool    // engine hashes for blocks that the worker lacks
}

// takenRun is a run with blocks that the worker holds, or that lead to one.
type takenRun struct {
	run     *run
	holding *holding // nil: only its children are held
	blocks  int      // of the run, up to the last one needed
	parts   []takenPart
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

func (c *capture) writeLocked() {
	w := c.worker
	for _, h := range w.holdings.list {
		if h != nil {
			c.need(h.run, h.end())
		}
	}
	for i := range w.entries.slots {
		if e := &w.entries.slots[i]; !e.empty() && e.handle != aliased {
			c.entry(w.ref(e), e.key)
		}
	}
	aliases := slices.Sorted(maps.Keys(w.aliases))
	for _, key := range aliases {
		for _, b := range w.aliases[key].blocks {
			c.entry(b, key)
		}
	}
	for _, r := range c.order {
		c.write(r)
	}
	for _, key := range slices.Sorted(maps.Keys(c.absent)) {
		c.out.remove(TierGPU, 1, key)
	}
	for _, key := range aliases {
		for t, n := range w.aliases[key].removals {
			if n > 0 {
				c.out.remove(Tier(t), n, key)
			}
		}
	}
}

// need notes that the first n blocks of a run are needed, and all that lead to it.
func (c *capture) need(r *run, n int) {
	first := len(c.order)
	for ; r.parent != nil; n, r = int(r.offset), r.parent {
		taken, ok := c.runs[r]
		if !ok {
			taken = &takenRun{run: r, holding: c.worker.on(r)}
			c.runs[r] = taken
			c.order = append(c.order, taken)
		}
		if taken.blocks = max(taken.blocks, n); ok {
			break
		}
	}
	slices.Reverse(c.order[first:])
}

// entry notes the copies of an entry, or of an alias in one domain.
func (c *capture) entry(b blockRef, key uint64) {
	r, at := c.runs[b.holding.run], int(b.offset)
	c.named[blockAt{r.run, at}] = key
	for t, n := range b.copies {
		if n > 0 {
			r.parts = append(r.parts, takenPart{at, Tier(t), int(n), []uint64{key}})
		}
	}
}

// write writes the parts of a run from its beginning on, so that each part has a parent.
func (c *capture) write(r *takenRun) {
	listed := r.run.listed()
	if r.holding != nil {
		for t, words := range r.holding.listed {
			for from := nextBit(words, 0, 0); from < 64*len(words); {
				to := nextBit(words, from, ^uint64(0))
				r.parts = append(r.parts, takenPart{from, Tier(t), 1, listed[from:to:to]})
				from = nextBit(words, to, 0)
			}
		}
	}
	var held []uint64
	for _, p := range r.parts {
		for i := range p.engineHashes {
			setBit(&held, uint32(p.offset+i))
		}
	}
	for i := range r.blocks {
		if !bit(held, uint32(i)) {
			r.parts = append(r.parts, takenPart{i, TierGPU, 1, []uint64{c.standIn(r.run, i)}})
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
			c.store(r.run, last)
		}
		last = p
	}
	if last != nil {
		c.store(r.run, last)
	}
}

func (c *capture) store(r *run, p *takenPart) {
	s := c.out
	domain := s.domain(r.domain) // a record of its own
	s.buf = append(s.buf, recordStore)
	s.number(int(p.tier))
	s.number(domain)
	switch {
	case p.offset > 0:
		s.number(1)
		s.word(c.name(r, p.offset-1))
	case r.parent.parent != nil:
		s.number(1)
		s.word(c.name(r.parent, int(r.offset)-1))
	default:
		s.number(0)
	}
	s.number(p.times)
	s.number(len(p.engineHashes))
	for _, h := range r.view.Load().all()[p.offset:][:len(p.engineHashes)] {
		s.word(uint64(h))
	}
	for _, h := range p.engineHashes {
		s.word(h)
	}
}

// name returns an engine hash by which the loaded worker knows a block.
func (c *capture) name(r *run, offset int) uint64 {
	if h := c.runs[r].holding; h != nil && h.listedCopies(uint32(offset)) != (copies{}) {
		return r.listed()[offset]
	}
	return c.named[blockAt{r, offset}]
}

// standIn returns an engine hash for a block that the worker lacks: the one that its run lists,
// unless the worker has it elsewhere.
func (c *capture) standIn(r *run, offset int) uint64 {
	key := r.listed()[offset]
	for c.worker.entries.find(key) != nil || c.worker.findListed(&c.out.x.tree.blocks, key).holding != nil ||
		c.absent[key] {
		key = keyed.Fold(key^spread, uint64(offset)+r.id)
	}
	c.absent[key] = true
	c.named[blockAt{r, offset}] = key
	return key
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
