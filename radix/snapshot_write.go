package radix

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// SnapshotWriter writes a snapshot while others read and write the index. It locks one worker
// at a time, so each worker's blocks are of one moment, but those of two workers may not be.
// Between Take and Flush its memory aliases the blocks of the index; beside them it has some 30
// bytes for each run. It is for one goroutine.
//
// The snapshot has the index's seed: a reader of the file can prepare prompts that collide.
// Keep it from other users.
type SnapshotWriter struct {
	x       *Index
	capture capturer
	images  []workerImage
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
	s.capture = capturer{x: x, written: make(map[uint64]writtenStretch)}
	s.buf = binary.LittleEndian.AppendUint64(s.buf, x.seed)
	s.buf = binary.LittleEndian.AppendUint64(s.buf, x.fingerprint())
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
	im, err := s.capture.worker(w)
	if err != nil {
		return err
	}
	im.name, im.meta = name, meta
	s.images = append(s.images, im)
	s.count.Workers++
	s.count.Entries += im.hashes
	return nil
}

// Flush writes the workers taken since the last Flush.
func (s *SnapshotWriter) Flush() error {
	for i := range s.images {
		im := &s.images[i]
		for j := range im.parts {
			s.part(&im.parts[j])
			s.spill(flushAt)
		}
		s.worker(im)
	}
	clear(s.images)
	s.images = s.images[:0]
	return s.err
}

// Close ends the snapshot and returns its sizes. The underlying writer stays open.
func (s *SnapshotWriter) Close() (SnapshotCounts, error) {
	_ = s.Flush() // its error stays in s.err
	s.buf = append(s.buf, recordEnd)
	for _, n := range []int{s.count.Stretches, s.count.Blocks, s.count.Workers, s.count.Entries} {
		s.number(uint64(n))
	}
	s.spill(0)
	if err := s.out.Close(); err != nil && s.err == nil {
		s.err = fmt.Errorf("cannot end snapshot: %w", err)
	}
	return s.count, s.err
}

// spill hands the records to the compressor if there are more than enough bytes.
func (s *SnapshotWriter) spill(enough int) {
	if len(s.buf) <= enough {
		return
	}
	if s.err == nil {
		if _, err := s.out.Write(s.buf); err != nil {
			s.err = fmt.Errorf("cannot write snapshot: %w", err)
		}
	}
	s.buf = s.buf[:0]
}

func (s *SnapshotWriter) number(v uint64) { s.buf = binary.AppendUvarint(s.buf, v) }

func (s *SnapshotWriter) text(v string) {
	s.number(uint64(len(v)))
	s.buf = append(s.buf, v...)
}

// part writes a stretch or an extension.
func (s *SnapshotWriter) part(p *stretchPart) {
	switch {
	case !p.fresh:
		s.buf = append(s.buf, recordExtension)
		s.number(uint64(p.number))
	case p.root:
		d := s.domain(p.domain, &p.key) // a record of its own
		s.buf = append(s.buf, recordStretch, 0)
		s.number(d)
	default:
		s.buf = append(s.buf, recordStretch)
		s.number(uint64(p.parent) + 1)
		s.number(uint64(p.offset))
	}
	s.number(uint64(len(p.blocks)))
	for _, h := range p.blocks {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(h))
	}
	for _, h := range p.engineHashes {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, h)
	}
	if p.fresh {
		s.count.Stretches++
	}
	s.count.Blocks += len(p.blocks)
}

// domain returns the number of a domain, after its record.
func (s *SnapshotWriter) domain(d Domain, k *DomainKey) uint64 {
	if n, ok := s.domains[d]; ok {
		return n
	}
	s.buf = append(s.buf, recordDomain)
	s.text(k.Model)
	s.number(uint64(k.BlockSize))
	s.text(k.LoRA)
	s.text(k.Salt)
	bigram := byte(0)
	if k.Bigram {
		bigram = 1
	}
	s.buf = append(s.buf, bigram)
	n := uint64(len(s.domains))
	s.domains[d] = n
	return n
}

// worker writes a worker's record, behind those of its stretches.
func (s *SnapshotWriter) worker(im *workerImage) {
	s.buf = append(s.buf, recordWorker)
	s.text(im.name)
	s.text(string(im.meta))
	s.number(uint64(im.holdings))
	s.buf = append(s.buf, im.body...)
	s.number(uint64(len(im.entries)))
	slices.SortFunc(im.entries, func(a, b entryRecord) int {
		byStretch := cmp.Compare(a.at.stretch, b.at.stretch)
		return cmp.Or(byStretch, cmp.Compare(a.at.offset, b.at.offset), cmp.Compare(a.key, b.key))
	})
	last := uint32(0)
	for i := range im.entries {
		e := &im.entries[i]
		s.block(blockRecord{e.at.stretch - last, e.at.offset, e.at.copies})
		s.buf = binary.LittleEndian.AppendUint64(s.buf, e.key)
		last = e.at.stretch
		s.spill(flushAt)
	}
	s.number(uint64(len(im.aliases)))
	for _, key := range slices.Sorted(maps.Keys(im.aliases)) {
		a := im.aliases[key]
		s.buf = binary.LittleEndian.AppendUint64(s.buf, key)
		for _, n := range a.removals {
			s.number(uint64(n))
		}
		s.number(uint64(len(a.blocks)))
		for _, b := range a.blocks {
			s.block(b)
		}
		s.spill(flushAt)
	}
	s.spill(flushAt)
}

// block writes a stretch or the distance to it, an offset and copies.
func (s *SnapshotWriter) block(b blockRecord) {
	s.number(uint64(b.stretch))
	s.number(uint64(b.offset))
	for _, n := range b.copies {
		s.number(uint64(n))
	}
}
