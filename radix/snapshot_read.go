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
// the written index, not cfg's, as the hashes depend on it. On an error there is no index.
// Whatever the file, memory stays in proportion to the bytes read, up to twice cfg.MaxBytes, or
// 8 GiB if there is no budget.
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
	return loadRecords(in, cfg, snapshotLimit(cfg.MaxBytes))
}

// snapshotLimit returns the bound of the index while it is loaded. The estimate compared with
// it is up to twice the real size; the end of the load evicts down to the budget.
func snapshotLimit(budget int64) int {
	if budget <= 0 {
		return maxSnapshotBytes
	}
	return int(2 * max(budget, minBudget))
}

// loadRecords reads the records of an index of at most limit bytes.
func loadRecords(r io.Reader, cfg Config, limit int) (*Index, []Restored, error) {
	l := loader{recordReader: recordReader{in: bufio.NewReaderSize(r, flushAt)}, limit: limit}
	cfg.Seed = l.word()
	if cfg.Seed == 0 {
		l.fail(errSeed)
	}
	l.x = New(cfg)
	if v := l.word(); l.err == nil && v != l.x.fingerprint() {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: its blocks have other hash functions", ErrSnapshotVersion)
	}
	for !l.ended && l.err == nil {
		l.record()
	}
	// The checksum is behind the end record.
	if _, err := l.in.ReadByte(); l.err == nil && !errors.Is(err, io.EOF) {
		l.fail(errors.Join(errTail, err))
	}
	if l.err == nil && hasIdleRun(&l.x.tree) {
		l.fail(errIdle)
	}
	if l.err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot, %d stretches and %d workers read: %w: %w",
			len(l.stretches), len(l.workers), ErrSnapshotCorrupt, l.err)
	}
	l.x.evictor.shrink()
	return l.x, l.workers, nil
}

// Faults of complete records.
var (
	errSeed   = errors.New("seed 0")
	errTail   = errors.New("bytes behind the end record")
	errIdle   = errors.New("blocks without a holder")
	errRecord = errors.New("unknown record")
	errRange  = errors.New("number out of range")
	errTwice  = errors.New("an engine hash or domain twice")
	errCounts = errors.New("counts differ from the end record")
	errSize   = errors.New("index larger than the limit")
)

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
		b, err := r.in.Peek(8 * min(n, flushAt/8))
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
