package radix

import "errors"

// A snapshot has the blocks of chosen workers, as the calls that make an index hold them. It begins
// with
//
//	8 bytes  "WARMPIDX"
//	1 byte   version
//
// and continues with one zstd frame, whose checksum covers the records below. Numbers are
// unsigned varints unless a size is given; texts are a length and bytes; domains are numbered
// from 0 in the order of their records:
//
//	seed         8 bytes; once, in front
//	fingerprint  8 bytes; behind it: the result of the hash functions for a fixed input
//	domain       model, block size, LoRA, salt, bigram (0 or 1)
//	worker       name, meta; the records behind it are of this worker
//	store        tier; domain; 1 and the parent's engine hash of 8 bytes, or 0; times; n; n block
//	             hashes; n engine hashes (all of 8 bytes)
//	remove       tier, times, engine hash of 8 bytes
//	end          workers; last
//
// Stores come behind those of their parents. A block that the worker lacks in front of others, a
// hole, is stored and removed again.
//
// Fixed sizes are little-endian.
const (
	snapshotMagic   = "WARMPIDX"
	snapshotVersion = 2

	recordDomain = 'D'
	recordWorker = 'W'
	recordStore  = 'S'
	recordRemove = 'R'
	recordEnd    = 'E'
)

const (
	// maxText bounds names and the parts of domain keys: a URL, a path, a salt.
	maxText = 64 << 10
	// maxSnapshotWorkers bounds the workers of a file, because adding a worker copies the table
	// of all.
	maxSnapshotWorkers = 1 << 16
	// maxStretch bounds the blocks of one record.
	maxStretch = coverageMask
	// maxCopies bounds the copies of a block, and the removals of it in each domain.
	maxCopies = 1<<16 - 1
	// maxSnapshotBytes bounds the index of a file if there is no budget. 100 million entries that
	// no two workers share take 5 GB.
	maxSnapshotBytes = 8 << 30
	// snapshotWindow bounds the memory of zstd on both sides. Hashes do not repeat, so more
	// gains nothing.
	snapshotWindow = 1 << 20
	// readAhead is the buffer of a reader: one block of the decompressor.
	readAhead = 128 << 10
	// spillBytes are enough for the compressor to work on.
	spillBytes = 128 << 10
)

var (
	// ErrSnapshotVersion means that another release wrote the snapshot in a form unknown to
	// this one.
	ErrSnapshotVersion = errors.New("radix: snapshot of another version")
	// ErrSnapshotCorrupt means that a file is no snapshot or is damaged.
	ErrSnapshotCorrupt = errors.New("radix: snapshot is corrupt")
)

// SnapshotCounts has the sizes of a snapshot.
type SnapshotCounts struct {
	Workers int
	Entries int // engine hashes held, over all workers
}

// Restored is a worker of a snapshot in its new index.
type Restored struct {
	Worker Worker
	Name   string // as given to Take
	Meta   []byte // as given to Take
}
