package radix

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// LoadSnapshot reads what a [SnapshotWriter] wrote into a new index, whose workers are those returned. The seed is that of the index that was
// written, not cfg's: the hashes mean nothing under another. On an error there is no index; whatever the file, memory stays in proportion to
// what has been read of it, up to twice cfg.MaxBytes, or to 8 GiB where there is no budget.
func LoadSnapshot(r io.Reader, cfg Config) (*Index, []Restored, error) {
	head := make([]byte, len(snapshotMagic)+1)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: %w", ErrSnapshotCorrupt, err)
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: it begins with %q", ErrSnapshotCorrupt, head)
	}
	if v := head[len(snapshotMagic)]; v != snapshotVersion {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: %d, want %d", ErrSnapshotVersion, v, snapshotVersion)
	}
	in, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(snapshotWindow))
	if err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w", err)
	}
	defer in.Close()
	return load(in, cfg, snapshotLimit(cfg.MaxBytes))
}

// snapshotLimit returns what an index may come to while it is loaded. The estimate that is held against it is up to twice what the index
// takes; what is beyond the budget in the end is evicted.
func snapshotLimit(budget int64) int {
	if budget <= 0 {
		return maxSnapshotBytes
	}
	return int(2 * max(budget, minBudget))
}

// load reads the records of an index of at most limit bytes.
func load(r io.Reader, cfg Config, limit int) (*Index, []Restored, error) {
	l := loader{in: bufio.NewReaderSize(r, flushAt), limit: limit}
	cfg.Seed = l.word()
	if cfg.Seed == 0 {
		l.fail(errSeed)
	}
	l.x = New(cfg)
	if probe := l.word(); l.err == nil && probe != l.x.probe() {
		return nil, nil, fmt.Errorf("cannot load snapshot: %w: its blocks are hashed in another way", ErrSnapshotVersion)
	}
	for !l.ended && l.err == nil {
		l.record()
	}
	// What is behind the end is read as well: the checksum is there.
	if _, err := l.in.ReadByte(); l.err == nil && !errors.Is(err, io.EOF) {
		l.fail(errors.Join(errTail, err))
	}
	if l.err == nil && l.x.idle() {
		l.fail(errIdle)
	}
	if l.err != nil {
		return nil, nil, fmt.Errorf("cannot load snapshot, %d stretches and %d workers read: %w: %w",
			len(l.laid), len(l.workers), ErrSnapshotCorrupt, l.err)
	}
	l.x.shrink()
	return l.x, l.workers, nil
}

// What can be wrong with records that are whole.
var (
	errSeed   = errors.New("seed 0")
	errTail   = errors.New("more behind the end")
	errIdle   = errors.New("blocks that nobody holds")
	errRecord = errors.New("unknown record")
	errRange  = errors.New("number out of range")
	errTwice  = errors.New("a name or domain twice")
	errCounts = errors.New("other counts than were written")
	errSize   = errors.New("a larger index than can be meant")
)

// loader reads the records of a snapshot. After an error all numbers are 0.
type loader struct {
	in      *bufio.Reader
	x       *Index
	domains []Domain
	laid    []laid // by number
	workers []Restored
	count   SnapshotCounts
	bytes   int // of the index, estimated
	limit   int // of bytes
	ended   bool
	err     error

	hashes []Hash // scratch
	names  []uint64
}

func (l *loader) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// charge counts what the index grows by.
func (l *loader) charge(bytes int) {
	if l.bytes += bytes; l.bytes > l.limit {
		l.fail(errSize)
	}
}

func (l *loader) byte() byte {
	if l.err != nil {
		return 0
	}
	b, err := l.in.ReadByte()
	l.cut(err)
	return b
}

// cut notes that the file ended where it should not.
func (l *loader) cut(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		l.fail(err)
	}
}

// number reads a varint of at most limit.
func (l *loader) number(limit int) int {
	if l.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(l.in)
	l.cut(err)
	if v > uint64(limit) {
		l.fail(errRange)
	}
	if l.err != nil {
		return 0
	}
	return int(v)
}

func (l *loader) word() uint64 {
	var b [8]byte
	if l.err == nil {
		_, err := io.ReadFull(l.in, b[:])
		l.cut(err)
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (l *loader) text() []byte {
	b := make([]byte, l.number(maxText))
	if l.err == nil {
		_, err := io.ReadFull(l.in, b)
		l.cut(err)
	}
	return b
}

// words appends n words to dst, which grows no faster than they come.
func words[H ~uint64](l *loader, dst []H, n int) []H {
	for n > 0 && l.err == nil {
		b, err := l.in.Peek(8 * min(n, flushAt/8))
		l.cut(err)
		if err != nil {
			return dst
		}
		for i := 0; i < len(b); i += 8 {
			dst = append(dst, H(binary.LittleEndian.Uint64(b[i:])))
		}
		n -= len(b) / 8
		_, err = l.in.Discard(len(b))
		l.cut(err)
	}
	return dst
}

func (l *loader) record() {
	switch l.byte() {
	case recordDomain:
		l.domain()
	case recordStretch:
		l.stretch()
	case recordExtension:
		if i := l.index(len(l.laid)); l.err == nil {
			l.blocks(&l.laid[i])
		}
	case recordWorker:
		l.worker()
	case recordEnd:
		l.end()
	default:
		l.fail(errRecord)
	}
}

// index reads a number below n.
func (l *loader) index(n int) int {
	if n == 0 {
		l.fail(errRange)
		return 0
	}
	return l.number(n - 1)
}

func (l *loader) domain() {
	k := DomainKey{Model: string(l.text()), BlockSize: l.number(1 << 30), LoRA: string(l.text()), Salt: string(l.text()), Bigram: l.number(1) == 1}
	if l.err != nil {
		return
	}
	if _, ok := l.x.FindDomain(k); ok {
		l.fail(errTwice)
		return
	}
	l.charge(stretchBytes + len(k.Model) + len(k.LoRA) + len(k.Salt))
	l.domains = append(l.domains, l.x.Domain(k))
}

func (l *loader) stretch() {
	var at spot
	if parent := l.number(len(l.laid)); parent > 0 {
		p := &l.laid[parent-1]
		at = p.spot(l.number(p.blocks))
	} else if i := l.index(len(l.domains)); l.err == nil {
		f := l.x.root(l.domains[i])
		if f == nil {
			l.fail(errIdle) // it stood too long without blocks
			return
		}
		at = spot{f.run, 0}
	}
	if l.err != nil {
		return
	}
	l.laid = append(l.laid, laid{start: at, end: at})
	l.charge(stretchBytes)
	l.blocks(&l.laid[len(l.laid)-1])
}

// stretchBytes and pieceBytes are what stretches and holds are estimated at, with their share of tables and without blocks.
const stretchBytes, pieceBytes = 360, 200

// maxStretch bounds the blocks of one record.
const maxStretch = leadMask

// blocks reads blocks and their names and puts them behind a stretch.
func (l *loader) blocks(to *laid) {
	n := l.number(maxStretch)
	if n == 0 {
		l.fail(errRange)
	}
	l.hashes = words(l, l.hashes[:0], n)
	l.names = words(l, l.names[:0], n)
	// Twice, as the table of names comes to as much.
	if l.charge(2 * n * int(blockBytes)); l.err != nil {
		return
	}
	l.x.lay(to, l.hashes, l.names)
	l.count.Blocks += n
}

func (l *loader) end() {
	l.ended = true
	l.count.Stretches, l.count.Workers = len(l.laid), len(l.workers)
	var c SnapshotCounts
	for _, n := range []*int{&c.Stretches, &c.Blocks, &c.Workers, &c.Entries} {
		*n = l.number(1 << 40)
	}
	if c != l.count {
		l.fail(errCounts)
	}
}

// worker reads what a worker holds.
func (l *loader) worker() {
	name, meta := l.text(), l.text()
	if len(l.workers) == maxSnapshotWorkers {
		l.fail(errRange)
	}
	if l.err != nil {
		return
	}
	id := l.x.AddWorker()
	l.workers = append(l.workers, Restored{id, string(name), meta})
	o := l.x.lock(id)
	defer o.unlock()
	at := 0
	for n := l.number(len(l.laid)); n > 0 && l.err == nil; n-- {
		at = l.hold(o, at)
	}
	at = 0
	for n := l.number(1 << 40); n > 0 && l.err == nil; n-- {
		at = l.entry(o, at)
	}
	for n := l.number(1 << 40); n > 0 && l.err == nil; n-- {
		l.alias(o)
	}
	l.count.Entries += o.table.len + o.named
}

// hold reads what a worker holds of a stretch under its names, and returns the number of that.
func (l *loader) hold(o *worker, last int) int {
	v, err := binary.ReadVarint(l.in)
	l.cut(err)
	i := last + int(v)
	if i < 0 || i >= len(l.laid) {
		l.fail(errRange)
		return 0
	}
	to := &l.laid[i]
	l.charge(pieceBytes * len(to.pieces))
	odd := o.table.len
	for t := range Tier(tiers) {
		at := 0
		for n := l.number(to.blocks); n > 0 && l.err == nil; n-- {
			at += l.number(to.blocks - at)
			size := l.number(to.blocks - at)
			if l.err != nil || size == 0 {
				l.fail(errRange)
				return 0
			}
			l.x.enter(o, to, at, size, t)
			at += size
		}
		l.charge(at / 8)
	}
	l.charge(2 * int(entryBytes) * (o.table.len - odd))
	if len(o.later) > 0 { // a name that is at another place already
		l.fail(errTwice)
	}
	return i
}

// seat reads the place of a block that a worker holds.
func (l *loader) seat(o *worker, last int) (p place, i int) {
	i = last + l.index(len(l.laid)-last)
	if l.err != nil {
		return p, 0
	}
	offset := l.index(l.laid[i].blocks)
	var n copies
	for t := range n {
		n[t] = uint16(l.number(1<<16 - 1))
	}
	if n == (copies{}) {
		l.fail(errRange)
	}
	if l.charge(pieceBytes + 2*int(entryBytes)); l.err != nil {
		return p, 0
	}
	return l.x.placeOf(o, &l.laid[i], uint32(offset), n), i
}

// entry reads a block that a worker holds in another way, and returns the number of its stretch.
func (l *loader) entry(o *worker, last int) int {
	p, i := l.seat(o, last)
	key := l.word()
	if l.err == nil && !l.x.enterOdd(o, key, p) {
		l.fail(errTwice)
	}
	return i
}

func (l *loader) alias(o *worker) {
	key := l.word()
	a := new(alias)
	for t := range a.lost {
		a.lost[t] = l.number(1 << 32)
	}
	for n := l.number(len(l.domains)); n > 0 && l.err == nil; n-- {
		p, _ := l.seat(o, 0)
		a.places = append(a.places, p)
	}
	if l.err == nil && !l.x.enterAlias(o, key, a) {
		l.fail(errTwice)
	}
}
