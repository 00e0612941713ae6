package radix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// LoadSnapshot reads a snapshot into a new index and returns its workers. The seed is that of
// the written index, not cfg's, as the hashes depend on it. On an error there is no index. Blocks
// beyond cfg.MaxBytes are evicted; without a budget, a file of more than 8 GiB is refused.
func LoadSnapshot(r io.Reader, cfg Config) (*Index, []Restored, error) {
	head := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: %w", ErrSnapshotCorrupt, err)
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: it begins with %q",
			ErrSnapshotCorrupt, head)
	}
	if v := head[len(snapshotMagic)]; v != snapshotVersion {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: %d, want %d",
			ErrSnapshotVersion, v, snapshotVersion)
	}
	in, err := zstd.NewReader(r,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(snapshotWindow))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w", err)
	}
	defer in.Close()
	return loadRecords(in, cfg, maxSnapshotBytes)
}

// loadRecords reads the records of an index of at most limit bytes.
func loadRecords(r io.Reader, cfg Config, limit int64) (*Index, []Restored, error) {
	l := loader{recordReader: recordReader{in: bufio.NewReaderSize(r, readAhead)}}
	cfg.Seed = l.word()
	if cfg.Seed == 0 {
		l.fail(errSeed)
	}
	l.x = New(cfg)
	if v := l.word(); l.err == nil && v != l.x.fingerprint() {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: its blocks have other hash functions", ErrSnapshotVersion)
	}
	for !l.ended && l.err == nil {
		if l.record(); l.x.tree.bytes() > limit {
			l.fail(errSize)
		}
	}
	// The checksum is behind the end record.
	if _, err := l.in.ReadByte(); l.err == nil && !errors.Is(err, io.EOF) {
		l.fail(errors.Join(errTail, err))
	}
	if l.err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot, %d workers read: %w: %w",
			len(l.workers), ErrSnapshotCorrupt, l.err)
	}
	return l.x, l.workers, nil
}

// Faults of complete records.
var (
	errSeed   = errors.New("seed 0")
	errTail   = errors.New("bytes behind the end record")
	errRecord = errors.New("unknown record")
	errRange  = errors.New("number out of range")
	errSize   = errors.New("index larger than the limit")
)

// loader builds an index from the records of a snapshot.
type loader struct {
	recordReader
	x       *Index
	domains []DomainKey
	workers []Restored
	ended   bool

	blocks       []Hash   // scratch
	engineHashes []uint64 // scratch
}

func (l *loader) record() {
	switch l.byte() {
	case recordDomain:
		l.domains = append(l.domains, DomainKey{
			Model: string(l.text()), BlockSize: l.number(1 << 30),
			LoRA: string(l.text()), Salt: string(l.text()), Bigram: l.number(1) == 1,
		})
	case recordWorker:
		name, meta := l.text(), l.text()
		if len(l.workers) == maxSnapshotWorkers {
			l.fail(errRange)
		}
		if l.err == nil {
			l.workers = append(l.workers, Restored{l.x.AddWorker(), string(name), meta})
		}
	case recordStore:
		l.store()
	case recordRemove:
		l.remove()
	case recordEnd:
		if l.ended = true; l.number(maxSnapshotWorkers) != len(l.workers) {
			l.fail(errRange)
		}
	default:
		l.fail(errRecord)
	}
}

func (l *loader) store() {
	s := Store{Worker: l.worker(), Tier: Tier(l.index(tiers))}
	domain := l.index(len(l.domains))
	if s.HasParent = l.number(1) == 1; s.HasParent {
		s.Parent = l.word()
	}
	times := l.number(maxCopies)
	n := l.number(maxStretch)
	l.blocks = readWords(&l.recordReader, l.blocks[:0], n)
	l.engineHashes = readWords(&l.recordReader, l.engineHashes[:0], n)
	if s.Blocks, s.Engine = l.blocks, l.engineHashes; l.err != nil {
		return
	}
	s.Domain = l.x.Domain(l.domains[domain])
	for range times {
		// Beyond the budget a block or its parent is evicted: the worker is partial then.
		if err := l.x.Store(s); err != nil && !errors.Is(err, ErrBudget) {
			l.fail(err)
		}
	}
}

func (l *loader) remove() {
	w, tier := l.worker(), Tier(l.index(tiers))
	times, key := l.number(len(l.domains)*maxCopies), l.word()
	for range times {
		if l.err != nil || l.x.Remove(w, tier, []uint64{key}) > 0 {
			return
		}
	}
}

// worker returns the worker of the records in hand.
func (l *loader) worker() Worker {
	if len(l.workers) == 0 {
		l.fail(errRange)
		return 0
	}
	return l.workers[len(l.workers)-1].Worker
}

// recordReader reads the fields of records. After an error all numbers are 0.
type recordReader struct {
	in  *bufio.Reader
	err error
}

func (r *recordReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// check notes a read error; the end of the file is one.
func (r *recordReader) check(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		r.fail(err)
	}
}

func (r *recordReader) byte() byte {
	if r.err != nil {
		return 0
	}
	b, err := r.in.ReadByte()
	r.check(err)
	return b
}

// number reads a varint of at most limit.
func (r *recordReader) number(limit int) int {
	if r.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(r.in)
	r.check(err)
	if v > uint64(limit) {
		r.fail(errRange)
	}
	if r.err != nil {
		return 0
	}
	return int(v)
}

// index reads a number below n.
func (r *recordReader) index(n int) int {
	if n == 0 {
		r.fail(errRange)
		return 0
	}
	return r.number(n - 1)
}

func (r *recordReader) word() uint64 {
	var b [8]byte
	if r.err == nil {
		_, err := io.ReadFull(r.in, b[:])
		r.check(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (r *recordReader) text() []byte {
	b := make([]byte, r.number(maxText))
	if r.err == nil {
		_, err := io.ReadFull(r.in, b)
		r.check(err)
	}
	return b
}

// readWords appends n words to dst, which grows no faster than they are read.
func readWords[H ~uint64](r *recordReader, dst []H, n int) []H {
	for n > 0 && r.err == nil {
		b, err := r.in.Peek(8 * min(n, readAhead/8))
		r.check(err)
		if err != nil {
			return dst
		}
		for i := 0; i < len(b); i += 8 {
			dst = append(dst, H(binary.LittleEndian.Uint64(b[i:])))
		}
		n -= len(b) / 8
		_, err = r.in.Discard(len(b))
		r.check(err)
	}
	return dst
}
